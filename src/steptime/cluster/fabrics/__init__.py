"""The kinds of fabric, inside hosts and between them: one file a kind."""
