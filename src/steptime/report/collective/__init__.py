"""Collectives as a person wants to see them: what their proofs showed, and their pictures."""
