"""The algorithms of gather, one a file."""
