"""Spatial decomposition: a step of a network on volumes that ranks share piece by piece.

The ranks of a ``tensor`` group halve as many dimensions of a volume as their number asks for: 4 of
them hold quarters, 2 × 2. Each convolution needs the planes of its input next to the cut, the
halos (Dryden et al., "Improving Strong-Scaling of CNN Training by Exploiting Finer-Grained
Parallelism", arXiv 1903.06681; CosmoFlow so: Oyama et al., arXiv 2007.12856). They are exchanged
dimension by dimension: what came across one cut goes along across the next, so that corners need
no message of their own. Backward is the adjoint (Hewett and Grady, arXiv 2006.03108): gradients of
the halos go back the same way, the last dimension first, and are added where they came from, while
the gradients of the weights are computed. So the halos of a layer are as large backward as forward.

Volumes are read with the halos of the first convolution, which needs no gradient of its input:
that layer sends nothing. Pooling, two places to one, never crosses a cut. Dense layers are split
by their outputs: each gathers its input and reduces and scatters the gradient of it. All ranks hold
all convolutions, whose gradients are summed over all; those of a share of the dense layers are
summed over the ranks that hold the same share.

The C++ proxy of spcl (``compat.cosmoflow``) sends 4 times as much forward, for the faces are those
of the outputs before pooling, and 2 times as much backward, where it exchanges gradients of
outputs, twice as many channels as inputs. Neither has corners.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from steptime.errors import UsageError
from steptime.program import Collective, Compute, Op, Program, Recv, Send
from steptime.program.program import After
from steptime.workloads.copies import Copied, Summing, samples_of, sync_of
from steptime.workloads.divide import check_at_least_1
from steptime.workloads.listing import add
from steptime.workloads.mesh import DATA, TENSOR
from steptime.workloads.models.families.cosmoflow import Convolution, Dense, VolumeNetwork
from steptime.workloads.models.parts import Unit
from steptime.workloads.precision import element_bytes
from steptime.workloads.sync import Sync

Layer: TypeAlias = Convolution | Dense
_DIMENSIONS = "xyz"


def spatial(
    model: VolumeNetwork,
    *,
    tensor: int = 4,
    data: int = 1,
    batch: int,
    accumulate: int = 1,
    dtype: str = "fp32",
    reduce_dtype: str = "fp32",
    strategy: str = "overlapped",
) -> Program:
    """One step on tensor × data ranks, of which the tensor axis varies fastest.

    ``batch`` volumes of all ranks together, in ``accumulate`` micro-batches: each of ``data``
    replicas has as many, and its ``tensor`` ranks a piece of each. Gradients are reduced as the
    ``strategy`` of that name says: overlapped, those of each convolution, and of the dense layers
    together, behind what backward still computes.

    Raises UsageError where the volume cannot be cut in ``tensor`` pieces or the batch not divided
    among the replicas, a number is below 1, or there is no such strategy or dtype.
    """
    counts = {"tensor ranks": tensor, "replicas": data, "micro-batches": accumulate}
    check_at_least_1((counts | {"volumes": batch}).items())
    plan = _Plan(
        model=model,
        cuts=_cuts(model, tensor),
        axes={TENSOR: tensor, DATA: data},
        samples=samples_of(batch, data, "replicas", accumulate),
        accumulate=accumulate,
        dtype=dtype,
        reduce_dtype=reduce_dtype,
        sync=sync_of(strategy, model.name),
    )
    pieces = f" (each volume in {' × '.join('2' * plan.cuts)})" if tensor > 1 else ""
    # Across the last cut the neighbour is as far in either direction, for the axis wraps around.
    kinds = max(1, tensor // 2)
    return Program(
        name=f"{model.name} tensor {tensor} × data {data}{pieces}",
        axes=plan.axes,
        lists=tuple(_step(plan, piece) for piece in range(kinds)),
        class_of=np.arange(tensor * data, dtype=np.int32) % kinds,
    )


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """The quantities that the ops of a step depend on; ``samples`` of a replica's micro-batch.

    ``cuts``: how many dimensions of a volume are halved.
    """

    model: VolumeNetwork
    cuts: int
    axes: dict[str, int]
    samples: int
    accumulate: int
    dtype: str
    reduce_dtype: str
    sync: Sync

    @property
    def pieces(self) -> int:
        """Ranks that share a volume."""
        return self.axes[TENSOR]

    @property
    def layers(self) -> Iterator[tuple[Layer, Unit]]:
        """Each layer and its unit, in forward order."""
        every: tuple[Layer, ...] = (*self.model.convolutions, *self.model.dense)
        return zip(every, self.model.units, strict=True)

    def nbytes(self, elements: int) -> int:
        """Bytes of ``elements`` elements of each sample of a micro-batch."""
        return self.samples * elements * element_bytes(self.dtype)


def halos(layer: Convolution, cuts: int) -> tuple[int, ...]:
    """Elements of a sample that a rank sends its neighbour across each of the ``cuts``, in order.

    A face of the input, extended by the halos received across the cuts before.
    """
    extents = [layer.side // 2] * cuts + [layer.side] * (len(_DIMENSIONS) - cuts)
    found = []
    for cut in range(cuts):
        face = prod(extents[:cut] + extents[cut + 1 :])
        found.append(layer.inputs * layer.reach * face)
        extents[cut] += layer.reach
    return tuple(found)


def _cuts(model: VolumeNetwork, tensor: int) -> int:
    able = [1 << cuts for cuts in range(len(_DIMENSIONS) + 1) if _divides(model, cuts)]
    if tensor not in able:
        choices = f"{', '.join(map(str, able[:-1]))} or {able[-1]}" if able[1:] else "1"
        raise UsageError(
            f"{tensor} tensor ranks cannot share the volumes of {model.name}, dimensions of which "
            f"are halved, and the outputs of its dense layers evenly: choose {choices}"
        )
    return tensor.bit_length() - 1


def _divides(model: VolumeNetwork, cuts: int) -> bool:
    """Whether pieces are equal: no pooling across a cut, dense outputs divided evenly."""
    whole = all(
        layer.kernel % 2 and layer.side % 4 == 0 and layer.side // 2 >= layer.reach
        for layer in model.convolutions
    )
    return not cuts or (whole and all(layer.outputs % (1 << cuts) == 0 for layer in model.dense))


def _step(plan: _Plan, piece: int) -> tuple[Op, ...]:
    """The step of the ranks that hold one piece."""
    ops: list[Op] = []
    gradients = Summing(ops, plan.sync, dtype=plan.dtype, reduce_dtype=plan.reduce_dtype)
    first: dict[str, int] = {}  # where each layer first runs
    for micro_batch in range(plan.accumulate):
        after: After = ()
        for layer, unit in plan.layers:
            after = _forward(plan, ops, layer, unit, piece, after)
            first.setdefault(layer.name, after[0])
        is_last = micro_batch == plan.accumulate - 1
        for layer, unit in reversed(list(plan.layers)):
            after, computed = _backward(plan, ops, layer, unit, piece, after)
            copied = _copied(plan, layer, unit) if is_last else None
            if copied:
                gradients.fill(copied, after=computed, forward=first[layer.name])
    gradients.finish()
    return tuple(ops)


def _forward(
    plan: _Plan, ops: list[Op], layer: Layer, unit: Unit, piece: int, after: After
) -> After:
    """Receive a layer's input from other ranks, then compute it."""
    if isinstance(layer, Convolution):
        if layer is not plan.model.convolutions[0]:
            crossed = enumerate(halos(layer, plan.cuts))
            after = _exchange(plan, ops, f"halo {layer.name}", crossed, piece, after)
    elif plan.pieces > 1:
        after = add(ops, _along_pieces(plan, "all_gather", layer, after))
    return add(ops, _compute(plan, "forward", 1, layer, unit, after))


def _backward(
    plan: _Plan, ops: list[Op], layer: Layer, unit: Unit, piece: int, after: After
) -> tuple[After, After]:
    """Send the gradient of a layer's input while that of its weights is computed.

    Returns the ops after which each is there. Of the first layer both are counted, as in the
    convention that backward is twice the forward.
    """
    if layer is plan.model.convolutions[0]:
        computed = add(ops, _compute(plan, "backward", 2, layer, unit, after))
        return computed, computed
    after = add(ops, _compute(plan, "backward input", 1, layer, unit, after))
    if isinstance(layer, Convolution):
        crossed = reversed(list(enumerate(halos(layer, plan.cuts))))
        after = _exchange(plan, ops, f"gradient of halo {layer.name}", crossed, piece, after)
    elif plan.pieces > 1:
        after = add(ops, _along_pieces(plan, "reduce_scatter", layer, after))
    return after, add(ops, _compute(plan, "backward weight", 1, layer, unit, ()))


def _compute(
    plan: _Plan, what: str, passes: int, layer: Layer, unit: Unit, after: After
) -> Compute:
    shares = plan.pieces if isinstance(layer, Dense) else 1
    weights = sum(part.multiplied for part in unit.parts) // shares
    return Compute(
        name=f"{what} {layer.name}",
        flops=passes * plan.samples * unit.forward_flops(1) / plan.pieces,
        nbytes=passes * weights * element_bytes(plan.dtype),
        dtype=plan.dtype,
        after=after,
    )


def _exchange(
    plan: _Plan,
    ops: list[Op],
    name: str,
    crossed: Iterable[tuple[int, int]],
    piece: int,
    after: After,
) -> After:
    """Swap so many elements of each sample across one cut after the other."""
    for cut, elements in crossed:
        if not elements:
            continue
        dimension = _DIMENSIONS[cut]
        by = -(1 << cut) if piece >> cut & 1 else 1 << cut
        nbytes = plan.nbytes(elements)
        for end, what in ((Send, "send"), (Recv, "receive")):
            half = end(
                name=f"{what} {name} {dimension}",
                axis=TENSOR,
                by=by,
                nbytes=nbytes,
                stream=f"{what} {dimension}",
                after=after,
            )
            arrived = add(ops, half)
        after = arrived
    return after


def _along_pieces(plan: _Plan, kind: str, layer: Dense, after: After) -> Collective:
    """Gather the input of a dense layer from the ranks of all pieces, or scatter its gradient."""
    return Collective(
        name=f"{kind} {layer.name}",
        kind=kind,
        group=(TENSOR,),
        nbytes=plan.nbytes(layer.inputs),
        dtype=plan.dtype,
        stream=TENSOR,
        after=after,
    )


def _copied(plan: _Plan, layer: Layer, unit: Unit) -> Copied | None:
    """The gradients complete after a layer: all dense layers count with the first of them."""
    if isinstance(layer, Convolution):
        axes = [TENSOR, DATA]
        name, elements = layer.name, unit.parameters
    elif layer is plan.model.dense[0]:
        axes = [DATA]
        units = plan.model.units[len(plan.model.convolutions) :]
        name, elements = "dense", sum(one.parameters for one in units) // plan.pieces
    else:
        return None
    group = tuple(axis for axis in axes if plan.axes[axis] > 1)
    return Copied(name, elements, group, prod(plan.axes[axis] for axis in group))
