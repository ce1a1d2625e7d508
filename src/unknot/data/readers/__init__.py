"""One file format each; every reader checks what it reads and says what was wrong."""
