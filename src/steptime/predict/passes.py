"""Passes: what forward and backward of a block and of the head take a device, for many layouts."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats, Longs
from steptime.predict.layouts import PRECISIONS, Layouts
from steptime.predict.machine import Machine
from steptime.simulate.kernels import (
    attention_seconds,
    product_seconds,
    stream_seconds,
    unfused_attention_seconds,
)
from steptime.workloads.matrices import Matrix
from steptime.workloads.models import Transformer

_CAST_BYTES = 4  # an element in 16 bits is read, and written in 8 bits as it is and turned
_WIDTH = 2  # bytes of an activation: fp32 has 4, and fp8 keeps them in bf16


@dataclass(frozen=True, eq=False, kw_only=True)
class Work:
    """Seconds that a pass keeps a device busy: in products, attention and memory-bound kernels.

    Each of shape (layouts,).
    """

    products: Floats
    attention: Floats
    memory_bound: Floats

    @property
    def seconds(self) -> Floats:
        """Their sum, shape (layouts,)."""
        return self.products + self.attention + self.memory_bound

    def __add__(self, other: "Work") -> "Work":
        return Work(
            products=self.products + other.products,
            attention=self.attention + other.attention,
            memory_bound=self.memory_bound + other.memory_bound,
        )

    def times(self, count: Floats | Longs | float) -> "Work":
        """So many of it."""
        return Work(
            products=self.products * count,
            attention=self.attention * count,
            memory_bound=self.memory_bound * count,
        )


def tokens_of_rank(layouts: Layouts) -> Longs:
    """Tokens of a micro-batch that a rank computes with, shape (layouts,)."""
    return np.asarray(layouts["rows"] * layouts["tokens"] // layouts["context"])


def tokens_held(layouts: Layouts) -> Longs:
    """Tokens of a micro-batch that a rank holds between the halves of a block."""
    tokens = tokens_of_rank(layouts)
    return np.where(layouts["sequence_parallel"], tokens // layouts["tensor"], tokens)


def activation_width(layouts: Layouts) -> Longs:
    """Bytes of an element of an activation, shape (layouts,)."""
    fp32 = layouts["precision"] == PRECISIONS.index("fp32")
    return np.where(fp32, 2 * _WIDTH, _WIDTH)


def product_work(
    machine: Machine, matrices: Iterable[Matrix], layouts: Layouts, *, backward: bool
) -> Floats:
    """What the products of a pass with some matrices take: shape (layouts,).

    Backward has two for each of forward: the gradient of its input and that of the matrix.
    """
    total = np.zeros(len(layouts))
    for place, name in enumerate(PRECISIONS):
        some = np.flatnonzero(layouts["precision"] == place)
        if some.size:
            own = layouts[some]
            for matrix in matrices:
                total[some] += _products(machine, name, matrix, own, backward=backward)
    return total


def _products(
    machine: Machine, precision: str, matrix: Matrix, layouts: Layouts, *, backward: bool
) -> Floats:
    share, device = layouts["tensor"], machine.device
    outputs = np.maximum(matrix.outputs / (share if matrix.cut == "outputs" else 1), 1)
    inputs = np.maximum(matrix.inputs / (share if matrix.cut == "inputs" else 1), 1)
    tokens = tokens_of_rank(layouts).astype(np.float64)
    batch = np.ones(len(layouts))
    if matrix.experts > 1:
        batch = np.maximum(matrix.experts / layouts["expert"], 1)
        tokens = np.maximum(tokens * layouts["expert"] * matrix.met / matrix.experts, 1)
    if not backward:
        return product_seconds(device, precision, tokens, outputs, inputs, batch)
    of_input = product_seconds(device, precision, tokens, inputs, outputs, batch)
    return of_input + product_seconds(device, precision, outputs, inputs, tokens, batch)


def attention_work(
    machine: Machine, model: Transformer, layouts: Layouts, *, backward: bool
) -> Floats:
    """What attention's scores and what they weigh take in a block: shape (layouts,).

    The average of all blocks, where some have a window and others none.
    """
    every = layouts["tokens"]
    whole = _scores(machine, model, layouts, every, backward=backward)
    if not model.window:
        return whole
    seen = np.minimum(every, model.window)
    part = _scores(machine, model, layouts, seen, backward=backward)
    return model.windowed * part + (1 - model.windowed) * whole


def _scores(
    machine: Machine, model: Transformer, layouts: Layouts, keys: Longs, *, backward: bool
) -> Floats:
    """The same of one block whose tokens attend to so many ``keys``."""
    software, heads = machine.software, np.maximum(model.heads / layouts["tensor"], 1)
    queries = layouts["tokens"] / layouts["context"]
    width = (model.query_width + model.value_width) / 2
    dtype = _attention_dtype(machine)
    sizes = {
        "rows": layouts["rows"],
        "heads": heads,
        "queries": queries,
        "keys": keys,
        "width": width,
    }
    if software.attention == "unfused":
        moved = _WIDTH * software.score_passes
        return unfused_attention_seconds(
            machine.device, dtype, score_bytes=moved, backward=backward, **sizes
        )
    causal = not model.architecture.masked
    seconds = attention_seconds(machine.device, dtype, causal=causal, backward=backward, **sizes)
    return seconds * _unevenness(machine, layouts) / software.attention_rate


def _unevenness(machine: Machine, layouts: Layouts) -> Floats:
    """How much longer the last of context's ranks attends than an average one."""
    ranks = layouts["context"]
    return np.where(machine.software.even_context, 1.0, (2 * ranks - 1) / ranks)


def _attention_dtype(machine: Machine) -> str:
    """Attention is computed in 16 bits where products are in 8."""
    rates = machine.device.flops
    return "bf16" if "bf16" in rates else next(iter(rates))


def block_stream_work(
    machine: Machine, model: Transformer, layouts: Layouts, *, backward: bool
) -> Floats:
    """What the memory-bound operations of a pass of a block take: shape (layouts,).

    What the parts of a block move, were every operation a kernel of its own, times the passes of
    the software. Backward moves twice as much.
    """
    held, tokens = tokens_held(layouts), tokens_of_rank(layouts)
    width, parts = activation_width(layouts), model.units[-2].parts  # of the last block
    whole, split = sum(one.moved_whole for one in parts), sum(one.moved for one in parts)
    software = machine.software
    passes = software.passes * held * whole
    passes = passes + software.inner_passes * tokens * split / layouts["tensor"]
    return stream_seconds(machine.device, passes * width * (2 if backward else 1))


def cast_work(
    machine: Machine, matrices: Iterable[Matrix], layouts: Layouts, *, backward: bool
) -> Floats:
    """What casts of the operands of products in 8 bits take: shape (layouts,).

    Forward casts what comes into each matrix and the matrix itself; backward the gradient of what
    comes out of it.
    """
    total = np.zeros(len(layouts))
    tokens, share = tokens_of_rank(layouts).astype(np.float64), layouts["tensor"]
    for matrix in matrices:
        outputs = matrix.outputs / (share if matrix.cut == "outputs" else 1)
        inputs = matrix.inputs / (share if matrix.cut == "inputs" else 1)
        met = tokens * matrix.met
        weights = outputs * inputs * matrix.experts / layouts["expert"]
        total += met * outputs if backward else met * inputs + weights
    nbytes = total * _CAST_BYTES * machine.software.cast_passes
    in_8_bits = layouts["precision"] == PRECISIONS.index("fp8")
    return np.where(in_8_bits, stream_seconds(machine.device, nbytes), 0.0)
