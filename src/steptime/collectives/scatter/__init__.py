"""The algorithms of scatter, one a file."""
