"""Replay: a program's traffic on live ranks, its computation stood in for."""
