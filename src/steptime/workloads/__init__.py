"""Workloads: the programs of known models in known parallelisms."""
