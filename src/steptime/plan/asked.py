"""What a plan is asked for, with every default filled in and checked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast, get_args

import numpy as np

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.nearest import mend
from steptime.plan.options import PlanOptions
from steptime.plan.space import Space, layouts_in
from steptime.predict.layouts import Layouts, spec_of
from steptime.predict.machine import Machine, machine_of
from steptime.predict.possible import cannot_run, reasons_of
from steptime.predict.software import Software
from steptime.workloads.models import (
    Model,
    Transformer,
    model_by_dimensions,
    transformer_of,
    with_dimensions,
)
from steptime.workloads.precision import element_bytes
from steptime.workloads.sizes import DIMENSIONS
from steptime.workloads.spec import Precision, StepSpec

_TOKENS = 4 << 20
_TOKENS_A_RANK = 1 << 10
NOT_IN_SPACE = (*DIMENSIONS, "batch", "tokens_per_row", "precision")
"""Options of a plan that fix nothing of a layout."""

_HALVINGS = 3


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A plan: a model on a cluster under some software, on each of ``gpus``, the most first.

    ``said``: what of the layout is fixed. ``name``: of the model, as it was given.
    """

    model: Transformer
    name: str
    cluster: Cluster
    software: Software
    gpus: tuple[int, ...]
    batch: int
    tokens: int
    precisions: tuple[Precision, ...]
    said: PlanOptions

    @cached_property
    def machine(self) -> Machine:
        """What its steps are predicted on."""
        return machine_of(self.cluster, self.software)

    def space(self, gpus: int) -> Space:
        """What is searched on so many ranks."""
        return Space(
            model=self.model,
            ranks=gpus,
            batch=self.batch,
            tokens=self.tokens,
            precisions=self.precisions,
            shards_in_pipelines=self.software.shards_in_pipelines,
            fixed={n: v for n, v in self.said.given().items() if n not in NOT_IN_SPACE},
        )

    def layouts(self, gpus: int) -> Layouts:
        """Every layout on so many ranks that the software runs, dtype LAYOUT, shape (layouts,).

        Raises UsageError where there is none.
        """
        rows = layouts_in(self.space(gpus))
        why = cannot_run(self.model, rows, self.software)
        if why.all():
            raise UsageError(
                f"{self.software.name} runs no such layout of {self.model.name} on {gpus} ranks: "
                f"{reasons_of(why[:1])[0]}"
            )
        return np.asarray(rows[why == 0])

    def spec(self, layout: np.void) -> StepSpec:
        """The step of one layout, its gradients as wide as the software sums them."""
        spec = spec_of(self.name, layout)
        narrow = self.software.gradient_bytes == element_bytes("bf16")
        return replace(spec, reduce_dtype="bf16") if narrow else spec


def asked_of(
    model: Model | str | Path,
    cluster: Cluster,
    software: Software,
    gpus: Sequence[int],
    said: PlanOptions,
    name: str = "",
) -> Asked:
    """The plan that is asked for; no ``gpus``: all of the cluster, and half as many, and so on.

    ``model``: itself, its name or file, or a family whose sizes are ``said``; ``name``: of one that
    goes by another. Raises UsageError where there is no such model or it is no transformer, the
    cluster has no place for so many, or its devices no rate for a precision.
    """
    if isinstance(model, str | Path):
        name = name or str(model)
        model = model_by_dimensions(str(model), said.sizes, said.tokens_per_row)
    found = transformer_of(with_dimensions(model, said.sizes))
    counts = _counts(cluster, gpus)
    tokens = found.row(said.tokens_per_row)
    return Asked(
        model=found,
        name=name or found.name,
        cluster=cluster,
        software=software,
        gpus=counts,
        batch=said.batch or _batch(counts[0], tokens),
        tokens=tokens,
        precisions=_precisions(cluster, said.precision),
        said=said,
    )


def _counts(cluster: Cluster, gpus: Sequence[int]) -> tuple[int, ...]:
    places = cluster.order.size
    if not gpus:
        least = max(1, cluster.devices // cluster.hosts)
        halves = (places >> n for n in range(1, _HALVINGS + 1) if not places % (1 << n))
        return (places, *(n for n in halves if n >= least))
    for count in gpus:
        if count < 1:
            raise UsageError(f"--gpus has {count}: there must be at least one")
        cluster.placed(count)
    return tuple(sorted(set(gpus), reverse=True))


def _batch(ranks: int, tokens: int) -> int:
    """Rows of about 4Mi tokens or 1024 a rank, as many as let any number of replicas share them."""
    rows = -(-max(_TOKENS, _TOKENS_A_RANK * ranks) // tokens)
    unit = ranks
    while unit > rows and not unit % 2:
        unit //= 2
    return -(-rows // unit) * unit


def _precisions(cluster: Cluster, text: str | None) -> tuple[Precision, ...]:
    rates, known = cluster.device.flops, get_args(Precision)
    if text is None:
        return ("bf16",) if "bf16" in rates else ("fp32",)
    asked = list(dict.fromkeys(word.strip() for word in text.split(",")))
    for one in asked:
        if one not in known:
            raise UsageError(f"--precision has no {one!r}: {mend(one, known)}")
        if one not in rates:
            able = [name for name in known if name in rates]
            raise UsageError(
                f"the devices of {cluster.name} have no rate for {one}: choose another "
                f"--precision of {', '.join(able)}, or add it to the cluster's file"
            )
    return cast("tuple[Precision, ...]", tuple(asked))
