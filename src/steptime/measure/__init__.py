"""Live timing of collectives and links; latency and bandwidth fitted from it."""
