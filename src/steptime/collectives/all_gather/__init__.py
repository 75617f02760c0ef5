"""The algorithms of all_gather, one a file."""
