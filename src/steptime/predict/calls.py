"""Calls: what communication takes within a pass and at the end of a step, for many layouts."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Flags, Floats
from steptime.predict.layouts import Layouts, gathers_once
from steptime.predict.machine import Machine
from steptime.predict.passes import activation_width, tokens_of_rank
from steptime.predict.shards import Shards
from steptime.simulate.nccl import call_seconds, message_seconds
from steptime.workloads.models import Transformer


@dataclass(frozen=True, eq=False, kw_only=True)
class Calls:
    """The exposed calls of a pass of a block, seconds by axis and their number: (layouts,)."""

    tensor: Floats
    context: Floats
    expert: Floats
    number: Floats

    @property
    def seconds(self) -> Floats:
        """All of them."""
        return self.tensor + self.context + self.expert

    def plus(self, other: "Calls", where: Flags) -> "Calls":
        """With others too in some layouts."""
        return Calls(
            tensor=self.tensor + np.where(where, other.tensor, 0.0),
            context=self.context + np.where(where, other.context, 0.0),
            expert=self.expert + np.where(where, other.expert, 0.0),
            number=self.number,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class DataCalls:
    """The calls among data-parallel ranks: seconds exposed and hidden, each (layouts,)."""

    exposed: Floats
    hidden: Floats


def passes_calls(
    model: Transformer, layouts: Layouts, machine: Machine, *, backward: bool
) -> Calls:
    """The calls of a pass of a block that computing waits for."""
    tensor, number = _tensor(model, layouts, machine, backward=backward)
    context = _context(model, layouts, machine, backward=backward)
    expert = np.zeros(len(layouts))
    if model.experts > 1:
        met = np.asarray(model.top_k * _activations(model, layouts), np.float64)
        stride = layouts["tensor"] * layouts["context"]
        each = call_seconds(machine.network, "all_to_all", met, layouts["expert"], stride)
        expert = 2 * each * (1 - model.dense_layers / model.layers)
        number = number + 2 * (layouts["expert"] > 1)
    return Calls(
        tensor=tensor,
        context=context,
        expert=expert,
        number=np.asarray(number, np.float64),
    )


def _tensor(
    model: Transformer, layouts: Layouts, machine: Machine, *, backward: bool
) -> tuple[Floats, Floats]:
    """Two sums a pass; in sequence parallelism a gather and a scattered sum for each of them."""
    software, ranks = machine.software, layouts["tensor"]
    nbytes, stride = _activations(model, layouts), np.ones(len(layouts), np.int64)

    def each(kind: str) -> Floats:
        return call_seconds(machine.network, kind, nbytes, ranks, stride)

    gathers = 4 if backward and software.regathers else 2
    split = layouts["sequence_parallel"]
    apart = gathers * each("all_gather") + 2 * each("reduce_scatter")
    seconds = np.where(split, apart, 2 * each("all_reduce")) * (1 - software.tensor_overlap)
    number = np.where(ranks > 1, np.where(split, gathers + 2, 2), 0)
    return seconds, number


def _activations(model: Transformer, layouts: Layouts) -> Floats:
    """Bytes of the activations of a micro-batch between two layers, shape (layouts,)."""
    nbytes = tokens_of_rank(layouts) * model.hidden * activation_width(layouts)
    return np.asarray(nbytes, np.float64)


def launch_s(layouts: Layouts, machine: Machine) -> Floats:
    """What the host takes to launch a call; more for each of its members where stages are far."""
    ranks = np.prod([layouts[one] for one in ("tensor", "context", "expert", "data")], axis=0)
    apart = (layouts["pipeline"] > 1) & (ranks * layouts["pipeline"] > machine.network.host_devices)
    stalled = np.where(apart, machine.software.stall_s * layouts["tensor"], 0.0)
    return machine.software.call_s + stalled


def _context(model: Transformer, layouts: Layouts, machine: Machine, *, backward: bool) -> Floats:
    """Keys and values of all tokens, gathered; backward their gradients are summed, too."""
    kv = layouts["rows"] * layouts["tokens"] * model.kv_width / layouts["tensor"]
    nbytes = np.asarray(kv * activation_width(layouts), np.float64)
    stride, ranks = layouts["tensor"], layouts["context"]
    seconds = call_seconds(machine.network, "all_gather", nbytes, ranks, stride)
    if backward:
        seconds = seconds + call_seconds(machine.network, "reduce_scatter", nbytes, ranks, stride)
    return seconds


def message_s(model: Transformer, layouts: Layouts, machine: Machine) -> Floats:
    """What a message between two stages takes; tensor ranks each send their share."""
    share = _activations(model, layouts) / layouts["tensor"]
    stride = np.prod([layouts[one] for one in ("tensor", "context", "expert", "data")], axis=0)
    return message_seconds(machine.network, share, stride)


def data_calls(
    shards: Shards, layouts: Layouts, machine: Machine, backward: Floats, forward: Floats
) -> DataCalls:
    """What reduces gradients and gathers parameters among those that hold the same.

    ``backward`` and ``forward``: seconds of a micro-batch of the stage. Without sharded parameters
    the calls of a step run behind its last backward, as far as the software lets them; with them
    every micro-batch gathers what it computes with, once each way, and scatters its gradients. In a
    pipeline the first forward gathers, and gradients are scattered once nothing is computed
    (``perform_reduce_grad`` of torch.distributed.pipelining).
    """
    software, ranks = machine.software, layouts["data"] * layouts["context"] * layouts["expert"]
    zero = layouts["zero"]
    by_block = software.data_calls * shards.held / shards.block
    buckets = np.ceil(shards.held * software.gradient_bytes / software.bucket_bytes)
    pieces = np.where(zero == 0, buckets, by_block)

    def each(kind: str, nbytes: Floats) -> Floats:
        one = call_seconds(machine.network, kind, nbytes / pieces, ranks, layouts["tensor"])
        return pieces * one

    gradients, parameters = shards.held * software.gradient_bytes, shards.held * 2.0
    scattered, gathered = each("reduce_scatter", gradients), each("all_gather", parameters)
    once = np.where(zero == 0, each("all_reduce", gradients), scattered + gathered)
    runs, behind_forward = layouts["micro_batches"], np.minimum(gathered, forward)
    kept = gathers_once(layouts)
    anew = (zero >= 3) & ~kept
    behind = np.select(
        [kept, anew],
        [behind_forward, runs * (behind_forward + np.minimum(gathered + scattered, backward))],
        np.minimum(once, backward),
    )
    hidden = behind * software.data_overlap
    every = np.where(anew, runs * (2 * gathered + scattered), once)
    return DataCalls(exposed=every - hidden, hidden=hidden)
