"""The algorithms of reduce_scatter, one a file."""
