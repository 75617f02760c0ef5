"""Lessons: one source each, run in the terminal and as a notebook."""
