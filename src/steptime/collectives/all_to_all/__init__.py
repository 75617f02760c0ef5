"""The algorithms of all_to_all, one a file."""
