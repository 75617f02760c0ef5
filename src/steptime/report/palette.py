"""What a step's time is split into, and the one colour each part has in every figure."""

from dataclasses import dataclass

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


PARTS = (
    Part("compute_s", "compute", Phase.COMPUTE, BLUE, "#ffffff"),
    Part("exposed_comm_s", "exposed communication", Phase.COMMUNICATION, VERMILLION, "#111111"),
    Part("update_s", "update", Phase.UPDATE, GREEN, "#111111"),
    Part("other_s", "other", Phase.OTHER, GREY, "#111111"),
)


def phase_colors() -> list[dict[str, str]]:
    """The name, colour and text colour of every phase, by its number."""
    known = {part.phase: (part.color, part.text_color) for part in PARTS}
    known[Phase.WAIT] = WAITING
    return [
        {"name": phase.name.lower(), "color": known.get(phase, WAITING)[0]}
        | {"text": known.get(phase, WAITING)[1]}
        for phase in Phase
    ]
