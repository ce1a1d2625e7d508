"""One of each kind, a file each: all that a package needs to bring them to unknot is its entry points."""
