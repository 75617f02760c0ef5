"""The algorithms of broadcast, one a file."""
