"""What a step's time is split into, and the one colour each part has in every figure."""

from collections.abc import Sequence
from dataclasses import dataclass

from steptime.runs.figures import Parts
from steptime.timeline import Phase

BLUE, VERMILLION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
ORANGE, SKY, PURPLE, YELLOW = "#E69F00", "#56B4E9", "#CC79A7", "#F0E442"

# Okabe & Ito, "Color Universal Design" (2008), in an order that keeps neighbours far apart.
CURVES = (ORANGE, BLUE, PURPLE, GREEN, SKY, VERMILLION, YELLOW, GREY)

# SVG dash arrays, one for each of these colours: a curve is told apart by more than its colour.
DASHES = (
    "solid",
    "9px,4px",
    "2px,3px",
    "9px,3px,2px,3px",
    "16px,4px",
    "5px,3px",
    "16px,3px,2px,3px",
    "2px,7px",
)

WAITING = ("--wait", "--ink")
"""A wait's colour and the text upon it: ground rather than figure, since nothing is done then."""


@dataclass(frozen=True)
class Part:
    """One part of a step: its field in run.json, its label, its colour and the text upon it."""

    field: str
    label: str
    phase: Phase
    color: str
    text_color: str


_COMPUTE = Part("compute_s", "compute", Phase.COMPUTE, BLUE, "#ffffff")
_REST = (
    Part("update_s", "update", Phase.UPDATE, GREEN, "#111111"),
    Part("other_s", "other", Phase.OTHER, GREY, "#111111"),
)
EXPOSED = (
    Part("transfer_s", "transfer", Phase.COMMUNICATION, VERMILLION, "#111111"),
    Part("bubble_s", "pipeline bubble", Phase.WAIT, ORANGE, "#111111"),
    Part("imbalance_s", "imbalance", Phase.WAIT, PURPLE, "#111111"),
    Part("dependency_s", "dependency", Phase.WAIT, YELLOW, "#111111"),
)
"""The parts of exposed communication."""

_WAITED = EXPOSED[1:]
_UNDIVIDED = Part(
    "exposed_comm_s", "exposed communication", Phase.COMMUNICATION, VERMILLION, "#111111"
)
PARTS = (_COMPUTE, *EXPOSED, *_REST)


def parts_of(entries: Sequence[Parts]) -> tuple[Part, ...]:
    """The parts to show of some steps, without the reasons of waiting that none of them has.

    Exposed communication stands undivided where one of them does not tell its parts.
    """
    if any(entry.transfer_s is None for entry in entries):
        return (_COMPUTE, _UNDIVIDED, *_REST)
    return tuple(
        part
        for part in PARTS
        if part not in _WAITED or any(getattr(entry, part.field) for entry in entries)
    )


def phase_colors() -> list[dict[str, str]]:
    """The name, colour and text colour of every phase, by its number."""
    known = {part.phase: (part.color, part.text_color) for part in PARTS}
    known[Phase.WAIT] = WAITING
    known[Phase.FAULT] = (PURPLE, "#111111")
    return [
        {"name": phase.name.lower(), "color": known.get(phase, WAITING)[0]}
        | {"text": known.get(phase, WAITING)[1]}
        for phase in Phase
    ]
