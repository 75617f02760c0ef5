"""One file a family, with its FAMILY."""
