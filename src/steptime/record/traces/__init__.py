"""Traces that others wrote of a job: read rank by rank, one file a format (``formats/``)."""
