"""Points of a sweep: each worked out once, here, by other processes or other hosts, and kept."""
