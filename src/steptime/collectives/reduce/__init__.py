"""The algorithms of reduce, one a file."""
