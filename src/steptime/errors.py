"""The errors that steptime reports in one sentence instead of a traceback."""


class SteptimeError(Exception):
    """Something failed while running: a check, a rank, a file. Exit code 1."""

    exit_code = 1


class UsageError(SteptimeError):
    """What was asked for cannot be done: bad option, bad input. Exit code 2."""

    exit_code = 2
