"""Runs: the folder that a run leaves, and what is recorded in it."""
