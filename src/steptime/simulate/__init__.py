"""Simulation: programs, schedules and flows on a cluster that is not there."""
