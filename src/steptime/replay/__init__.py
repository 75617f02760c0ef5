"""Replay: a program's communication on live ranks, with stand-ins for its computation."""
