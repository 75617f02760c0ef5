"""The algorithms of barrier, one a file."""
