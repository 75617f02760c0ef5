"""Which algorithm carries out a collective of a group, chosen by name for each size."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steptime.collectives import COLLECTIVES, collective_named
from steptime.collectives.selection import Selection

VARIABLE = "STEPTIME_"
"""The environment variable for all_reduce is STEPTIME_ALL_REDUCE, and so on."""


@dataclass(frozen=True)
class Options:
    """What init_process_group and new_group take for this backend as ``pg_options``.

    ``algorithms`` holds the text of a Selection for each collective, by its name, such as
    all_reduce; what it does not hold is taken from the environment.
    """

    algorithms: Mapping[str, str] = field(default_factory=dict)


def select(options: Options, environ: Mapping[str, str], ranks: int) -> dict[str, Selection]:
    """What is selected in a group of so many ranks, for the collectives for which anything is.

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
