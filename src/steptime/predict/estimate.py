"""The estimate of a step: a closed form over many layouts at a time.

A step is that of the pipeline stage that has the most to do: its micro-batches one after the other,
and before and after them what the other stages take for one (arXiv 2104.04473, section 2.2). The
account is that of an average stage, which waits for that one in the bubble. A pass of a block takes
what its kernels and its exposed calls take, or what the host takes to launch them, whichever is
longer.
"""

from dataclasses import dataclass, replace

import numpy as np

from steptime.arrays import Floats, Longs
from steptime.predict.account import Account
from steptime.predict.calls import Calls, data_calls, launch_s, message_s, passes_calls
from steptime.predict.layouts import RECOMPUTES, SCHEDULES, Layouts, ranks_of
from steptime.predict.machine import Machine
from steptime.predict.passes import (
    Work,
    attention_work,
    block_stream_work,
    cast_work,
    product_work,
    tokens_of_rank,
)
from steptime.predict.shards import Shards, shards_of
from steptime.simulate.kernels import stream_seconds
from steptime.workloads.matrices import attention_matrices, head_matrix, mlp_matrices
from steptime.workloads.models import Transformer

_FORWARD_OF_HOST = 1 / 3
_FP32 = 4
_NORM = 4.0
_PADDED = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class Pass:
    """A pass of one block: what the device does, what calls expose, and what the host takes.

    ``again``: the part of ``work`` that recomputes. All of shape (layouts,).
    """

    work: Work
    again: Floats
    calls: Calls
    host: Floats

    @property
    def busy(self) -> Floats:
        """Seconds of the device."""
        return self.work.seconds + self.again + self.calls.seconds

    @property
    def waits(self) -> Floats:
        """Seconds in which the device waits for the host.

        The host is ahead in some parts of a pass and behind in others, so that the longer of both
        hides most of the shorter, but not all where they are about as long.
        """
        both = (self.host**_NORM + self.busy**_NORM) ** (1 / _NORM)
        return both - self.busy

    @property
    def seconds(self) -> Floats:
        """What the pass takes."""
        return self.busy + self.waits


def estimate(model: Transformer, layouts: Layouts, machine: Machine) -> Account:
    """Where the time of a step of ``model`` goes in each layout, on a machine.

    Raises UsageError where its devices have no rate for a precision.
    """
    forward, backward = (block_pass(model, layouts, machine, backward=one) for one in (False, True))
    head = _head(model, layouts, machine)
    blocks = model.layers / layouts["pipeline"]
    runs = layouts["micro_batches"]
    count = blocks * runs
    work = (forward.work + backward.work).times(count) + head.times(runs / layouts["pipeline"])
    shards = shards_of(model, layouts)
    data = data_calls(shards, layouts, machine, blocks * backward.seconds, blocks * forward.seconds)
    stages = Stages(
        blocks=model.layers,
        block_s=forward.seconds + backward.seconds,
        head_s=head.seconds,
        even=machine.software.even_stages,
    )
    terms = {
        "products": work.products,
        "attention": work.attention,
        "memory-bound": work.memory_bound,
        "launches": count * (forward.waits + backward.waits),
        "recompute": count * (forward.again + backward.again),
        "contention": machine.software.contention * data.hidden,
        "tensor": count * (forward.calls.tensor + backward.calls.tensor),
        "context": count * (forward.calls.context + backward.calls.context),
        "expert": count * (forward.calls.expert + backward.calls.expert),
        "data": data.exposed,
        "pipeline": _messages(model, layouts, machine),
        "bubble": _bubble(layouts, stages, blocks * backward.work.products / 2),
        "optimizer": _optimizer(shards, machine),
        "host": np.full(len(layouts), machine.software.step_s),
    }
    total = np.asarray(sum(terms.values()))
    terms["imbalance"] = total * _imbalance(layouts, machine)
    return Account(terms=terms)


def _imbalance(layouts: Layouts, machine: Machine) -> Floats:
    """By how much of its length a step is longer for waiting for the slowest of many devices."""
    hosts = np.maximum(ranks_of(layouts) / machine.network.host_devices, 1)
    return np.asarray(machine.software.jitter * np.log2(hosts))


def block_pass(model: Transformer, layouts: Layouts, machine: Machine, *, backward: bool) -> Pass:
    """A pass of an average block: of a mixture of experts the dense ones are averaged in."""
    software = machine.software
    dense = model.dense_layers / model.layers if model.experts > 1 else 0.0
    matrices = (*attention_matrices(model), *mlp_matrices(model, dense=False))

    def work(*, backward: bool) -> Work:
        mlp = product_work(machine, mlp_matrices(model, dense=False), layouts, backward=backward)
        if dense:
            other = mlp_matrices(model, dense=True)
            mlp += dense * (product_work(machine, other, layouts, backward=backward) - mlp)
        own = product_work(machine, attention_matrices(model), layouts, backward=backward)
        moved = block_stream_work(machine, model, layouts, backward=backward)
        return Work(
            products=own + mlp,
            attention=attention_work(machine, model, layouts, backward=backward),
            memory_bound=moved + cast_work(machine, matrices, layouts, backward=backward),
        )

    calls = passes_calls(model, layouts, machine, backward=backward)
    count = calls.number
    again = np.zeros(len(layouts))
    share = 1 - _FORWARD_OF_HOST if backward else _FORWARD_OF_HOST
    launched = np.full(len(layouts), software.block_s * share)
    if backward:
        forward = work(backward=False)
        full = layouts["recompute"] == RECOMPUTES.index("full")
        some = layouts["recompute"] == RECOMPUTES.index("selective")
        before = passes_calls(model, layouts, machine, backward=False)
        again = np.where(full, forward.seconds, np.where(some, forward.attention, 0.0))
        calls = calls.plus(before, full)
        count = count + np.where(full, before.number, 0)
        launched += np.where(full, software.block_s * _FORWARD_OF_HOST, 0.0)
    return Pass(
        work=work(backward=backward),
        again=again,
        calls=calls,
        host=launched + count * launch_s(layouts, machine),
    )


def _head(model: Transformer, layouts: Layouts, machine: Machine) -> Work:
    """Both passes of the head and of the loss, and the norm and the embedding with them."""
    matrix = (replace(head_matrix(model), outputs=_words(model)),)
    products = sum(product_work(machine, matrix, layouts, backward=one) for one in (False, True))
    return Work(
        products=np.asarray(products),
        attention=np.zeros(len(layouts)),
        memory_bound=loss_seconds(model, layouts, machine),
    )


def loss_seconds(model: Transformer, layouts: Layouts, machine: Machine) -> Floats:
    """What the loss moves forward and backward, the logits in fp32: shape (layouts,)."""
    words = _words(model) / layouts["tensor"]
    nbytes = machine.software.loss_passes * _FP32 * tokens_of_rank(layouts) * words
    return stream_seconds(machine.device, nbytes)


def _words(model: Transformer) -> int:
    """Words of the vocabulary with padding, without which the head's products were slow.

    All frameworks pad it, to this or a multiple of this (llm.c, nanoGPT, Megatron-LM).
    """
    return -(-model.vocabulary // _PADDED) * _PADDED


@dataclass(frozen=True, eq=False, kw_only=True)
class Stages:
    """A pipeline of ``blocks`` blocks and a head, by what a micro-batch takes each: (layouts,).

    ``even``: stages are cut by what they take, the head counted; else each has as many blocks, and
    the last one the head too.
    """

    blocks: int
    block_s: Floats
    head_s: Floats
    even: bool

    def average(self, number: Longs) -> Floats:
        """Seconds of one of so many stages, on average."""
        return np.asarray((self.blocks * self.block_s + self.head_s) / number)

    def longest(self, number: Longs) -> Floats:
        """Seconds of the one that takes the longest.

        Cut evenly that is as long as ``k`` blocks, or as the head and ``j`` blocks: the least of
        either for which all stages together have room for all blocks.
        """
        if not self.even:
            return self.blocks / number * self.block_s + self.head_s
        head = self.head_s / self.block_s
        k = np.ceil((self.blocks + np.ceil(head)) / number)
        j = np.ceil((self.blocks - (number - 1) * np.floor(head)) / number)
        most = np.minimum(np.where(k >= head, k, np.inf), head + np.maximum(j, 0))
        alone = self.blocks + head
        return np.where(number > 1, most, alone) * self.block_s


def _bubble(layouts: Layouts, stages: Stages, weights: Floats) -> Floats:
    """What an average stage waits: one micro-batch through each other stage, and for the longest.

    Interleaved stages wait for one chunk of it; zb-h1 fills the wait with gradients of weights but
    for a third (arXiv 2401.10241, section 2.3).
    """
    number = layouts["pipeline"]
    filled = layouts["schedule"] == SCHEDULES.index("zb-h1")
    stage = stages.average(number)
    waits = np.where(filled, np.maximum(stage - 2 * weights, 0), stage / layouts["interleave"])
    uneven = layouts["micro_batches"] * (stages.longest(number) - stage)
    return np.asarray((number - 1) * waits + uneven)


def _messages(model: Transformer, layouts: Layouts, machine: Machine) -> Floats:
    """Messages between stages: each way at both ends of a step, and those that nothing hides."""
    piped = layouts["pipeline"] > 1
    each = message_s(model, layouts, machine)
    chunks = layouts["micro_batches"] * layouts["interleave"]
    shown = 1 - machine.software.message_overlap
    return np.where(piped, 2 * each * (layouts["pipeline"] - 1 + shown * chunks), 0.0)


def _optimizer(shards: Shards, machine: Machine) -> Floats:
    moved = shards.updated * machine.software.optimizer_bytes
    moved = moved + shards.held * machine.software.held_bytes
    return np.asarray(moved / machine.device.memory_bandwidth)
