"""Formats of traces, one file each: each ends with ``FORMAT = Format(…)``."""
