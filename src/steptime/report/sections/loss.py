"""The training loss of every strategy, step by step, and whether they agree."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steptime.report.figures import Figure, axis, label, layout
from steptime.report.palette import CURVES, DASHES
from steptime.report.section import Page, Section
from steptime.report.sections.strategies import percent
from steptime.runs.figures import StepFigures

_STRIPE = 10  # pixels
_AGREE = 1e-3  # relative


@dataclass(frozen=True)
class Curve:
    """How the loss of one strategy is drawn; ``dash`` is an SVG dash array or ``solid``."""

    strategy: str
    color: str
    dash: str


def _shown(page: Page) -> Mapping[str, Any] | None:
    trained = {name: entry for name, entry in page.strategies.items() if entry.loss}
    if not trained:
        return None
    return {
        "curves": curves(trained),
        "loss_sentence": loss_sentence(trained),
        "figures": {"loss": loss_figure(page.strategies)},
    }


def loss_sentence(strategies: Mapping[str, StepFigures]) -> str:
    """How the losses of the strategies compare."""
    steps = max(len(entry.loss) for entry in strategies.values())
    if len(strategies) == 1:
        return f"The training loss over {steps} steps."
    if losses_agree(strategies):
        return (
            "The curves lie on one another because every strategy trains the same model: "
            "where they do, the line is striped in all their colours."
        )
    spread = loss_spread(strategies)
    if math.isinf(spread):
        return "The loss of a strategy is not a finite number at every step."
    return f"The curves differ by up to {percent(spread)} of the loss at a step."


def loss_spread(strategies: Mapping[str, StepFigures]) -> float:
    """The largest relative distance between two strategies' losses at the same step.

    Steps that not all strategies took do not count; a loss that is not finite is infinitely far.
    """
    spread = 0.0
    for losses in zip(*(entry.loss for entry in strategies.values()), strict=False):
        low, high = min(losses), max(losses)
        if not all(math.isfinite(loss) for loss in losses):
            return math.inf
        if high > low:
            spread = max(spread, (high - low) / max(abs(low), abs(high)))
    return spread


def losses_agree(strategies: Mapping[str, StepFigures]) -> bool:
    """Whether all loss curves lie on one another, within a thousandth."""
    return loss_spread(strategies) <= _AGREE


def curves(strategies: Mapping[str, StepFigures]) -> list[Curve]:
    """Colour and dashes of every strategy's loss.

    Curves that lie on one another share the line out: each is drawn in the gaps of the others.
    """
    count = len(strategies)
    striped = count > 1 and losses_agree(strategies)
    drawn = []
    for index, name in enumerate(strategies):
        after = (count - 1 - index) * _STRIPE
        stripe = f"0px,{index * _STRIPE}px,{_STRIPE}px,{after}px"
        dash = stripe if striped else DASHES[index % len(DASHES)]
        drawn.append(Curve(name, CURVES[index % len(CURVES)], dash))
    return drawn


def loss_figure(strategies: Mapping[str, StepFigures]) -> Figure:
    """The training loss over the steps, one curve a strategy."""
    data = []
    for curve in curves(strategies):
        losses = strategies[curve.strategy].loss
        data.append(
            {
                "type": "scatter",
                "mode": "lines" if len(losses) > 1 else "markers",
                "name": label(curve.strategy),
                "x": list(range(1, len(losses) + 1)),
                "y": [float(f"{loss:.6g}") if math.isfinite(loss) else None for loss in losses],
                "line": {"color": curve.color, "dash": curve.dash, "width": 3.5},
                "hovertemplate": "%{fullData.name} %{y:.4f}<extra></extra>",
            }
        )
    return {
        "data": data,
        "layout": layout(
            320,
            hovermode="x unified",
            xaxis=axis("step", rangemode="tozero", hoverformat="d", showgrid=False),
            yaxis=axis("loss"),
        ),
    }


SECTION = Section("loss", 90, _shown)
