"""One contestant a file. Each takes a workload's name and prints one JSON line."""
