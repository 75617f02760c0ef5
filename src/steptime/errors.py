"""The errors that steptime reports in one sentence instead of a traceback."""

_LONGEST = 4000  # characters, beyond all that we have to say


class SteptimeError(Exception):
    """Something failed while running: a check, a rank, a file. Exit code 1."""

    exit_code = 1

    def __str__(self) -> str:
        """The sentence on one line, whatever the name or the file holds that it quotes."""
        text = super().__str__()
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
        return "".join(one if one.isprintable() else " " for one in shown)


class UsageError(SteptimeError):
    """What was asked for cannot be done: bad option, bad input. Exit code 2."""

    exit_code = 2


class StoppedError(SteptimeError):
    """SIGTERM came, and what was under way is kept. The exit code is that of such an end."""

    exit_code = 128 + 15


class UnreadError(SteptimeError):
    """Nobody reads what is printed, as behind ``| head``: the end, without a word.

    The exit code is that of a process which SIGPIPE ended.
    """

    exit_code = 128 + 13


def shell_status(code: int) -> int:
    """The exit status that shells give a process; ``code`` is negative where a signal ended it."""
    return code if code >= 0 else 128 - code


def error_of(text: str, exit_code: int) -> SteptimeError:
    """The error that another process reported by its text and exit code."""
    kinds = {
        kind.exit_code: kind for kind in (SteptimeError, UsageError, StoppedError, UnreadError)
    }
    return kinds.get(exit_code, SteptimeError)(text)
