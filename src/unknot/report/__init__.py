"""What is shown: the progress of a run, its summary, its curve. Needs rich, imported here only."""
