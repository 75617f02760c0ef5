"""Selection: which algorithm a group uses for each collective and size."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steptime.collectives import COLLECTIVES, collective_named
from steptime.collectives.selection import Selection

VARIABLE = "STEPTIME_"
"""Prefix of the environment variables that select algorithms, such as STEPTIME_ALL_REDUCE."""


@dataclass(frozen=True)
class Options:
    """The ``pg_options`` of init_process_group and new_group for this backend.

    ``algorithms``: by name of a collective, such as all_reduce, the text of a Selection; for all
    others the environment decides.
    """

    algorithms: Mapping[str, str] = field(default_factory=dict)


def select(options: Options, environ: Mapping[str, str], ranks: int) -> dict[str, Selection]:
    """The selections for a group of so many ranks, by collective; only those that are made.

    Raises UsageError for an unknown collective, and as Selection.parse does.
    """
    named = {
        name: environ[VARIABLE + name.upper()]
        for name in COLLECTIVES
        if environ.get(VARIABLE + name.upper())
    } | dict(options.algorithms)
    return {
        name: Selection.parse(text, collective_named(name).name, ranks)
        for name, text in named.items()
    }
