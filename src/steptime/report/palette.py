"""What a step's time is split into, and the one colour each part has in every figure."""

from dataclasses import dataclass

from steptime.timeline import Phase

BLUE, VERMILLION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
ORANGE, SKY, PURPLE, YELLOW = "#E69F00", "#56B4E9", "#CC79A7", "#F0E442"

# Okabe & Ito, "Color Universal Design" (2008), in an order that keeps neighbours far apart.
CURVES = (ORANGE, BLUE, PURPLE, GREEN, SKY, VERMILLION, YELLOW, GREY)


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
