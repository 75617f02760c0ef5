"""Words: what sentences of all packages have in common."""

from collections.abc import Sequence


def listed(names: Sequence[str]) -> str:
    """Names, one at least, in a sentence: ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
