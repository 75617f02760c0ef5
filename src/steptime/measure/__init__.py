"""Measuring collectives and links on live ranks; latency and bandwidth fitted to the times."""
