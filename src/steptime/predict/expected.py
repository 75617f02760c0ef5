"""The expected error of a prediction: how far those of the nearest measured steps were off.

Near is what has the same device and precision, about the same axes, size and GPUs, and the same
framework, for each has parameters of its own. The errors are of ``steptime plan --validate`` and
ship with the parameters that they are of: ``benchmarks/accuracy.py`` writes them anew.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Longs
from steptime.predict.layouts import PRECISIONS, ranks_of
from steptime.predict.machine import Machine
from steptime.workloads.models import Transformer

AXES = ("tensor", "pipeline", "context", "expert")
COLUMNS = (
    *("device", "precision", "software", *AXES, "zero", "gpus", "parameters"),
    *("error", "source"),
)
"""What is kept of a measured step; ``error`` is the signed relative one of its prediction."""

_WEIGHTS = {**dict.fromkeys(AXES, 0.5), "gpus": 0.25, "parameters": 0.5}
"""How far apart a factor of two puts steps; all shards of parameters or none put them 1 apart."""

_OTHER_SOFTWARE = 1.5

_NEAR = 2.5
_MOST = 20
_FEWEST = 5
_QUANTILE = 0.8
_FILE = files("steptime.predict") / "errors.csv"


@dataclass(frozen=True, kw_only=True)
class ExpectedError:
    """How far predictions of the nearest measured steps were off, relative to what was measured.

    ``mape``: their mean absolute error; four in five of them were off by ``most`` at most.
    ``rows``: how many they are, and ``sources`` whose, the commonest first.
    """

    mape: float
    most: float
    rows: int
    sources: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Errors:
    """Errors of predictions of measured steps; arrays of shape (steps,) where nothing is said.

    ``alike``: the numbers of the steps of each device and precision. ``places``: the logarithms of
    axes, GPUs and parameters, times their weights, shape (steps, 6).
    """

    alike: Mapping[tuple[str, str], Longs]
    places: Floats
    sharded: NDArray[np.bool_]
    software: NDArray[np.str_]
    error: Floats
    source: tuple[str, ...]


def expected_error(model: Transformer, layout: np.void, machine: Machine) -> ExpectedError | None:
    """The expected error of a step's predicted time, None where no measured step is near it.

    ``layout``: one row of Layouts.
    """
    return nearest(shipped_errors(), step_of(model, layout, machine))


def step_of(model: Transformer, layout: np.void, machine: Machine) -> dict[str, Any]:
    """What a step is told by: COLUMNS but for the error and the source."""
    return {
        "device": machine.device.name,
        "precision": PRECISIONS[int(layout["precision"])],
        "software": machine.software.name,
        **{axis: int(layout[axis]) for axis in AXES},
        "zero": int(layout["zero"]),
        "gpus": int(ranks_of(layout)),
        "parameters": model.parameters,
    }


def nearest(
    errors: Errors, step: Mapping[str, Any], *, but: int | None = None
) -> ExpectedError | None:
    """The error expected of a step with COLUMNS; ``but``: the place of one that does not count."""
    alike = errors.alike.get((step["device"], step["precision"]), np.zeros(0, np.int64))
    apart = np.abs(errors.places[alike] - _place(step)).sum(axis=1)
    apart += errors.sharded[alike] != (int(step["zero"]) >= 3)
    apart += _OTHER_SOFTWARE * (errors.software[alike] != step["software"])
    order = np.argsort(apart, kind="stable")
    near = alike[order[apart[order] <= _NEAR]]
    near = near[near != but][:_MOST] if but is not None else near[:_MOST]
    if near.size < _FEWEST:
        return None
    off = np.abs(errors.error[near])
    return ExpectedError(
        mape=float(off.mean()),
        most=float(np.quantile(off, _QUANTILE)),
        rows=int(near.size),
        sources=tuple(
            name for name, _ in Counter(errors.source[one] for one in near).most_common()
        ),
    )


def errors_of(steps: Sequence[Mapping[str, Any]]) -> Errors:
    """Errors of steps that have COLUMNS."""
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        alike[step["device"], step["precision"]].append(number)
    return Errors(
        alike={kind: np.array(numbers, np.int64) for kind, numbers in alike.items()},
        places=np.array([_place(step) for step in steps]).reshape(len(steps), len(_WEIGHTS)),
        sharded=np.array([int(step["zero"]) >= 3 for step in steps]),
        software=np.array([step["software"] for step in steps], np.str_),
        error=np.array([float(step["error"]) for step in steps]),
        source=tuple(step["source"] for step in steps),
    )


def _place(step: Mapping[str, Any]) -> Floats:
    return np.array([each * np.log2(float(step[name])) for name, each in _WEIGHTS.items()])


@cache
def shipped_errors() -> Errors:
    """The errors that ship."""
    return errors_of(shipped_steps())


def shipped_steps() -> list[dict[str, str]]:
    """The steps that ship, each with COLUMNS."""
    return list(csv.DictReader(_FILE.read_text().splitlines()))
