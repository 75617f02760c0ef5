"""The record of a plan: the best layouts of a model on a cluster, with the account of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steptime.runs.codec import plain
from steptime.runs.environment import ALWAYS, Environment
from steptime.runs.utilisation import FORMULA


@dataclass(frozen=True, kw_only=True)
class LayoutFigures:
    """A layout on ``gpus`` ranks, what its step takes and its rank that needs the most keeps.

    ``terms``: seconds of the step by term, which add up to it; ``memory``: bytes by category.
    ``bound``: the largest terms. ``mfu``: the model's FLOP in the step's time, of the peak of all
    devices. ``expected_error``: relative, by measured steps like it, None where there are none.
    ``simulated_step_time_s``: of the same layout simulated, where it was. ``options``: those that
    make ``steptime simulate`` take the same. ``cost`` in the currency of the price and ``joules``
    are of a step.
    """

    source: str = "computed"
    gpus: int
    axes: Mapping[str, int]
    sequence_parallel: bool
    schedule: str | None = field(metadata=ALWAYS)
    interleave: int
    micro_batch: int
    micro_batches: int
    recompute: str
    zero: int
    precision: str
    step_time_s: float
    simulated_step_time_s: float | None = None
    terms: Mapping[str, float]
    bound: str
    mfu: float
    tflops_per_device: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    memory_bytes: int
    memory: Mapping[str, int]
    fits: bool
    expected_error: float | None = field(metadata=ALWAYS)
    expected_from: str = ""
    cost: float | None = None
    joules: float | None = None
    options: str


@dataclass(frozen=True, kw_only=True)
class PlanCell:
    """The best of all layouts with these ranks along tensor and pipeline.

    ``step_time_s``: None where none fits. ``memory_bytes``: of the leanest.
    """

    tensor: int
    pipeline: int
    step_time_s: float | None = field(metadata=ALWAYS)
    memory_bytes: int
    layouts: int


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far the estimates are from the simulations of the same layouts.

    ``median`` and ``largest``: relative, of estimate / simulation - 1 without its sign.
    """

    layouts: int
    median: float
    largest: float
    wall_s: float
    left_out: int
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A whole training in the best layout: ``tokens``, days, and what it costs."""

    tokens: float
    steps: float
    days: float
    cost: float | None = None
    joules: float | None = None


@dataclass(frozen=True, kw_only=True)
class PlanRecord:
    """A plan: of ``searched`` layouts, of which ``fitting`` fit, the ``best`` first.

    ``batch`` in rows of ``tokens_per_row``. ``fits``: whether any layout does; if not, ``best`` are
    the leanest and ``remedy`` says what would fit. ``why``: why the runner-up loses. ``front``:
    time against memory; ``front_gpus``: the best of each number of GPUs. ``price``: of a device for
    an hour. ``formula``: the FLOP of a token, in words.
    """

    verb: str = "plan"
    run: str = ""
    source: str = "computed"
    model: str
    parameters: int
    cluster: str
    cluster_title: str
    device: str
    device_bytes: int
    peak_flops: Mapping[str, float]
    watts: float | None = None
    software: str
    software_title: str
    gpus: int
    batch: int
    tokens_per_row: int
    flops_per_token: float
    formula: str = FORMULA
    fits: bool
    remedy: str = ""
    best: Sequence[LayoutFigures]
    why: str
    searched: int
    fitting: int
    estimated: int
    front: Sequence[LayoutFigures]
    front_gpus: Sequence[LayoutFigures]
    cells: Sequence[PlanCell]
    price: float | None = None
    training: Training | None = None
    agreement: Agreement | None = None
    wall_s: float
    environment: Environment

    @property
    def tokens_per_step(self) -> int:
        """Tokens of the global batch."""
        return self.batch * self.tokens_per_row


def plan_json(record: PlanRecord) -> dict[str, Any]:
    """The content of its run.json."""
    raw: dict[str, Any] = plain(record)
    for name in ("best", "front", "front_gpus", "cells"):
        raw.setdefault(name, [])
    return raw
