"""Emulate: a cluster's hosts as network namespaces of this machine, joined by shaped links."""
