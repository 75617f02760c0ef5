"""Patience: whether to look for bytes again and again, or to sleep until some come."""

_LOOK_S = 150e-6
"""To be woken takes some 50 µs, and whoever is to answer may have to be woken too: were this less,
two ranks that once went to sleep would do so for ever."""

_TRUST = 8
_SELDOM = 16


class Patience:
    """How long a thread looks before it sleeps: as long as that has been of use.

    Where links are slow, or ranks share processors, bytes come later than anybody should look for
    them: then it looks only now and then, to find out whether that has changed.
    """

    def __init__(self) -> None:
        self._trust = _TRUST
        self._skipped = 0

    def look_s(self) -> float:
        """The seconds for which looking is worth it now."""
        if self._trust:
            return _LOOK_S
        self._skipped = (self._skipped + 1) % _SELDOM
        return 0.0 if self._skipped else _LOOK_S

    def learn(self, looked_s: float, *, slept: bool) -> None:
        """Whether looking for so long was in vain."""
        if looked_s:
            self._trust = max(0, self._trust - 1) if slept else min(_TRUST, self._trust + 1)
