"""Driven: the program of a step as a framework drives its devices, for a simulator that knows none.

A program's kernels are those that a compiler makes, and its host is never late. What a framework
makes of them its ``Software`` tells, by which the closed form counts too: so both tell of the same
step, one by formulas and the other by running its schedule and its calls in their order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steptime.predict.estimate import Pass, block_pass, loss_seconds
from steptime.predict.layouts import Layouts
from steptime.predict.machine import Machine
from steptime.predict.passes import block_stream_work
from steptime.predict.shards import shards_of
from steptime.program import Collective, Compute, Kernel, Op, Program
from steptime.simulate.device import kernel_seconds
from steptime.timeline import Phase
from steptime.workloads.mesh import CONTEXT, TENSOR
from steptime.workloads.models import Transformer
from steptime.workloads.precision import element_bytes, update_bytes

_LOSS = {"forward": 1 / 3, "backward": 2 / 3}
_UPDATE_BYTES = update_bytes("bf16") + element_bytes("fp32")  # a program's norm reads it once more


@dataclass(frozen=True, kw_only=True)
class _Way:
    """What a framework makes of a pass of a block in one direction.

    ``attention`` takes so many seconds; products, with the casts of their operands, and what is
    memory-bound take so many ``times`` what the kernels of a program do; and where the host is late
    all takes ``late`` times that.
    """

    attention: float
    times: Mapping[str, float]
    late: float


class _Driver:
    """Drives the ops of one layout; those that are alike are priced once."""

    def __init__(self, model: Transformer, layout: Layouts, machine: Machine) -> None:
        self._machine = machine
        self._ways = {
            direction: _way(model, layout, machine, backward=direction == "backward")
            for direction in _LOSS
        }
        self._loss_s = float(loss_seconds(model, layout, machine)[0])
        held = float(shards_of(model, layout).held[0]) * machine.software.held_bytes
        self._once_s = held / machine.device.memory_bandwidth + machine.software.step_s
        self._known: dict[tuple[int, str, str, bool], float] = {}

    def driven(self, op: Op) -> Op:
        """The op with the seconds, or the bytes, that it takes; what has neither as it is."""
        if isinstance(op, Collective):
            return replace(op, nbytes=round(op.nbytes * self._shown(op)))
        if not isinstance(op, Compute) or op.seconds is not None:
            return op
        if op.phase is Phase.UPDATE:
            return replace(op, seconds=self._updating(op))
        if not op.kernels:
            return op
        direction, *words = op.name.split()
        key = id(op.kernels), op.dtype, direction, "head" in words
        if key not in self._known:
            self._known[key] = self._seconds(op, direction, head=key[-1])
        return replace(op, seconds=self._known[key])

    def _shown(self, call: Collective) -> float:
        """Of a call's bytes, those that computing waits for, what backward gathers again included.

        Sequence-parallel ranks gather again what went into a half of a block, where the software
        does (arXiv 2205.05198, section 4.2.2), and context-parallel ones keys and values.
        """
        software, backward = self._machine.software, call.name.startswith("backward")
        if call.group == (TENSOR,):
            again = backward and call.kind == "all_gather" and software.regathers
            return (1 - software.tensor_overlap) * (1 + again)
        return 1 + (backward and call.group == (CONTEXT,))

    def _seconds(self, op: Compute, direction: str, *, head: bool) -> float:
        if head:
            products = [one for one in op.kernels if one.kind == "product"]
            loss_s = self._loss_s * _LOSS[direction] if len(products) < len(op.kernels) else 0.0
            return loss_s + sum(self._alone(op, one) for one in products)
        return self._ways[direction].late * sum(self._of_block(op, one) for one in op.kernels)

    def _of_block(self, op: Compute, kernel: Kernel) -> float:
        if kernel.kind == "attention":
            direction = "backward" if kernel.sizes[-1] else "forward"
            return kernel.times * self._ways[direction].attention
        return self._ways[op.name.split()[0]].times[kernel.kind] * self._alone(op, kernel)

    def _alone(self, op: Compute, kernel: Kernel) -> float:
        return kernel.times * kernel_seconds(self._machine.device, op.dtype, kernel)

    def _updating(self, op: Compute) -> float:
        moved = op.nbytes * self._machine.software.optimizer_bytes / _UPDATE_BYTES
        once = self._once_s if op.name == "norm" else 0.0
        return moved / self._machine.device.memory_bandwidth + once


def driven(program: Program, model: Transformer, layout: Layouts, machine: Machine) -> Program:
    """The program of a ``layout``, shape (1,), computing as the machine's software does."""
    driver = _Driver(model, layout, machine)
    return replace(program, lists=tuple(tuple(map(driver.driven, ops)) for ops in program.lists))


def _way(model: Transformer, layout: Layouts, machine: Machine, *, backward: bool) -> _Way:
    one = block_pass(model, layout, machine, backward=backward)
    fused = replace(machine.software, passes=1.0, inner_passes=1.0)
    plain = replace(machine, software=fused)
    streams, alone = (
        float(block_stream_work(of, model, layout, backward=backward)[0]) for of in (machine, plain)
    )
    computing = float((one.work.seconds + one.again)[0])
    return _Way(
        attention=float(one.work.attention[0]),
        times={"stream": streams / alone, "product": _with_casts(one, streams)},
        late=1 + float(one.waits[0]) / computing,
    )


def _with_casts(one: Pass, streams: float) -> float:
    """How many times its own seconds a product takes with the casts of what it multiplies."""
    return 1 + (float(one.work.memory_bound[0]) - streams) / float(one.work.products[0])
