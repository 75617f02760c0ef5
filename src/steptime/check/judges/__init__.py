"""Judges: one file each, whose JUDGE looks at a Job and says what it finds."""
