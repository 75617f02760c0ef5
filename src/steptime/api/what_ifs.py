"""``steptime.what_ifs``: one step, and how much faster each of many changes would make it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Unpack

from steptime.api.cells import Track, untracked
from steptime.api.pictures import cluster_of
from steptime.api.simulation import asked_of, changed_steps, prepared_there, read_what_if
from steptime.api.sweeps import Cell, Sweep
from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.simulate.prepare import Prepared
from steptime.simulate.step import step_seconds
from steptime.study.options import FidelityName, HowOptions
from steptime.study.simulate import prepare_all
from steptime.workloads.models import Model
from steptime.workloads.spec import StepOptions, spec_of


@dataclass(frozen=True)
class Changed:
    """A changed step, and how many times as fast as the unchanged one it is."""

    step_s: float
    speedup: float

    @property
    def row(self) -> dict[str, Any]:
        """Both, as a row of a table has them."""
        return {"step_s": self.step_s, "speedup": self.speedup}


def what_ifs(
    model: Model | str | Path,
    cluster: Cluster | str | Path,
    changes: Sequence[str],
    *,
    fidelity: FidelityName = "auto",
    algorithm: str = "",
    steps: int = 2,
    track: Track = untracked,
    **step: Unpack[StepOptions],
) -> Sweep[Changed]:
    """Ask of one step how much faster each of many changes would make it: a table.

    ``changes``: each as ``what_if`` of ``st.simulate`` has it, as ``"bandwidth=2x,latency=0"`` or
    ``"forward=2x"``; ``""``, the step as it is, comes first. The other arguments are those of
    ``st.simulate``. The step is prepared once, and of each change only its seconds are asked for:
    where it is one of the cluster a thousand take seconds at fidelity ``collective``. Each strategy
    has a row for each change.

    Raises UsageError where a change is none, before any is simulated, and where ``st.simulate``
    does.

    >>> grid = [f"bandwidth={more}x,latency={less}x" for more in (1, 2, 4) for less in (1, 0.5)]
    >>> table = st.what_ifs("gpt3-13B", "dgx-h100-pod", grid, tensor=8, data=2, pipeline=4)
    >>> len(table.rows), table.rows[0]["speedup"], 1 < table.rows[-1]["speedup"] < 4
    (7, 1.0, True)
    """
    if isinstance(changes, str):
        raise UsageError(f"what_ifs takes several changes: write ['{changes}']")
    how = HowOptions(fidelity=fidelity, algorithm=algorithm, steps=steps)
    asked = asked_of(model, cluster_of(cluster), spec_of(step), how)
    read = [read_what_if(asked, text) for text in changes]
    here = prepare_all(asked, asked.cluster, how)
    base = _seconds(here)
    cells = _cells("", base, base)
    for text, one in zip(changes, track(read, "changes"), strict=True):
        there = prepared_there(asked, here, changed_steps(asked, one), how)
        cells += _cells(text, _seconds(there), base)
    return Sweep(tuple(cells))


def _seconds(prepared: Mapping[str, Prepared]) -> dict[str, float]:
    """What the last step of each case takes."""
    return {name: float(step_seconds(one)[-1]) for name, one in prepared.items()}


def _cells(text: str, found: Mapping[str, float], base: Mapping[str, float]) -> list[Cell[Changed]]:
    return [
        Cell(
            {"what_if": text, "strategy": name},
            Changed(seconds, base[name] / seconds if seconds else inf),
            None,
        )
        for name, seconds in found.items()
    ]
