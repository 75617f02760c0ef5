"""The algorithms of all_reduce, one a file."""
