"""Tables of embeddings on different ranks: a step of a recommendation model.

As the reference does (Naumov et al., arXiv 1906.00091): each rank looks up all samples in the
tables that it holds, then an all_to_all gives every rank the embeddings of its own samples, while
these pass the bottom MLP. Backward, the gradients of the embeddings go back the same way, while
those of the bottom MLP are computed. Gradients of tables are summed where the tables are; those of
the MLPs, which every rank holds, are reduced among all.

Tables are cut by columns, as TorchRec's column-wise sharding does: each rank holds the same share
of all columns of all tables, in their order. 26 tables on 13 ranks are 2 whole ones each, 4 tables
on 8 ranks a half each. Where ranks do not divide the columns the first ranks hold one more than the
others, the exchange is as if all did, and the program's name says so. Each sample looks up one row
of each table, as the C++ proxy of spcl has it, and indices are read where they are looked up.

That proxy (``compat.dlrm``) exchanges one table's embeddings a rank however many ranks there are,
which is right for as many ranks as tables alone: N ranks send N/4 times what 4 tables yield. It
leaves out what ranks do not divide, never divides the computing, and begins the exchanges where
nothing is computed behind them.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from steptime.errors import UsageError
from steptime.program import Collective, Compute, Op, Program
from steptime.program.program import After
from steptime.timeline import Phase
from steptime.workloads.copies import Copied, Summing, samples_of, sync_of
from steptime.workloads.divide import check_at_least_1
from steptime.workloads.listing import add
from steptime.workloads.mesh import DATA
from steptime.workloads.models.families.dlrm import TableNetwork
from steptime.workloads.models.parts import Unit
from steptime.workloads.precision import element_bytes
from steptime.workloads.sync import Sync

_EXCHANGE = "exchange"
_SGD_BYTES = 12  # of an fp32 weight that is met: it and its gradient are read, it is written
_Direction: TypeAlias = Literal["forward", "backward"]


def tables(
    model: TableNetwork,
    *,
    ranks: int,
    batch: int,
    accumulate: int = 1,
    dtype: str = "fp32",
    reduce_dtype: str = "fp32",
    strategy: str = "overlapped",
) -> Program:
    """One step on ``ranks`` ranks along the axis ``data``.

    ``batch`` samples of all ranks together, in ``accumulate`` micro-batches. Gradients of the MLPs
    are reduced as the ``strategy`` of that name says: overlapped, those of the top MLP and then
    those of the bottom one, behind what backward still computes.

    Raises UsageError where ranks are more than columns or do not divide the batch, a number is
    below 1, or there is no such strategy or dtype.
    """
    counts = {"ranks": ranks, "samples": batch, "micro-batches": accumulate}
    check_at_least_1(counts.items())
    columns = model.tables * model.width
    if ranks > columns:
        raise UsageError(
            f"{ranks} ranks are more than the {columns} columns of the tables of {model.name}: "
            f"choose {columns} or fewer"
        )
    samples = samples_of(batch, ranks, "ranks", accumulate)
    each, over = divmod(columns, ranks)
    plans = [
        _Plan(
            model=model,
            ranks=ranks,
            columns=held,
            exchanged=each + bool(over),
            samples=samples,
            accumulate=accumulate,
            dtype=dtype,
            reduce_dtype=reduce_dtype,
            sync=sync_of(strategy, model.name),
        )
        for held in ([each + 1, each] if over else [each])
    ]
    return Program(
        name=f"{model.name} data {ranks}{_spread(columns, ranks)}",
        axes={DATA: ranks},
        lists=tuple(map(_step, plans)),
        class_of=(np.arange(ranks) >= (over or ranks)).astype(np.int32),
    )


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """The quantities that the ops of a step depend on; ``samples`` of a rank's micro-batch.

    ``columns`` are those that a rank holds and ``exchanged`` the most that any does.
    """

    model: TableNetwork
    ranks: int
    columns: int
    exchanged: int
    samples: int
    accumulate: int
    dtype: str
    reduce_dtype: str
    sync: Sync


def _spread(columns: int, ranks: int) -> str:
    """How the remainder of the columns is spread, in words; empty where there is none."""
    each, over = divmod(columns, ranks)
    if not over:
        return ""
    return (
        f" ({columns} columns of tables: {each + 1} on {over} rank{'s' * (over > 1)}, {each} on "
        f"{ranks - over}, exchanged as {(each + 1) * ranks})"
    )


def _step(plan: _Plan) -> tuple[Op, ...]:
    """The ops of a rank that holds so many columns."""
    ops: list[Op] = []
    gradients = Summing(ops, plan.sync, dtype=plan.dtype, reduce_dtype=plan.reduce_dtype)
    _, *units = plan.model.units
    bottom = [unit for unit in units if unit.name.startswith("bottom")]
    between, *top = units[len(bottom) :]
    first: dict[str, int] = {}  # where each MLP first runs

    def mlp(name: str, direction: _Direction) -> After:
        layers = {"bottom": bottom, "top": top}[name]
        for unit in layers if direction == "forward" else reversed(layers):
            after = add(ops, _compute(plan, direction, unit, ()))
            first.setdefault(name, after[0])
        return after

    def fill(name: str, after: After) -> None:
        elements = sum(u.parameters for u in {"bottom": bottom, "top": top}[name])
        gradients.fill(
            Copied(name, elements, (DATA,), plan.ranks), after=after, forward=first[name]
        )

    for micro_batch in range(plan.accumulate):
        is_last = micro_batch == plan.accumulate - 1
        there = _swap(plan, ops, "embeddings", add(ops, _look_up(plan, "forward", ())))
        mlp("bottom", "forward")
        add(ops, _compute(plan, "forward", between, there))
        mlp("top", "forward")
        after = mlp("top", "backward")
        if is_last:
            fill("top", after)
        after = add(ops, _compute(plan, "backward", between, ()))
        there = _swap(plan, ops, "gradients", after)
        after = mlp("bottom", "backward")
        if is_last:
            fill("bottom", after)
        add(ops, _look_up(plan, "backward", there))
    ops.append(_update(plan))
    gradients.finish()
    return tuple(ops)


def _compute(plan: _Plan, direction: _Direction, unit: Unit, after: After) -> Compute:
    """A unit's forward or backward of the samples of one rank."""
    passes = 1 if direction == "forward" else 2
    weights = sum(part.multiplied for part in unit.parts)
    return Compute(
        name=f"{direction} {unit.name}",
        flops=passes * plan.samples * unit.forward_flops(1),
        nbytes=passes * weights * element_bytes(plan.dtype),
        dtype=plan.dtype,
        after=after,
    )


def _look_up(plan: _Plan, direction: _Direction, after: After) -> Compute:
    """Rows read and copied for all samples of all ranks, or their gradients written."""
    elements = plan.ranks * plan.samples * plan.columns
    return Compute(
        name=f"{direction} tables",
        nbytes=2 * elements * element_bytes(plan.dtype),
        dtype=plan.dtype,
        after=after,
    )


def _swap(plan: _Plan, ops: list[Op], what: str, after: After) -> After:
    """All-to-all from each rank's columns of all samples to all columns of its samples, or back."""
    if plan.ranks == 1:
        return ()
    elements = plan.ranks * plan.samples * plan.exchanged
    return add(
        ops,
        Collective(
            name=f"{_EXCHANGE} {what}",
            kind="all_to_all",
            group=(DATA,),
            nbytes=elements * element_bytes(plan.dtype),
            dtype=plan.dtype,
            stream=_EXCHANGE,
            after=after,
        ),
    )


def _update(plan: _Plan) -> Compute:
    """SGD of the rows that were looked up, as the reference does."""
    looked_up = plan.accumulate * plan.ranks * plan.samples * plan.columns
    return Compute(name="update tables", nbytes=looked_up * _SGD_BYTES, phase=Phase.UPDATE)
