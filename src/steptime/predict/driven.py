"""Driven: the program of a step as a framework drives its devices, for a simulator that knows none.

A program's kernels are those that a compiler makes, and its host is never late. What a framework
makes of them its ``Software`` tells, by which the closed form counts too: so both tell of the same
step, one by formulas and the other by running its schedule and its calls in their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.predict.estimate import Pass, block_pass, estimate, loss_seconds
from steptime.predict.layouts import SCHEDULES, Layouts, layouts_of
from steptime.predict.machine import Machine, machine_of
from steptime.predict.passes import block_stream_work
from steptime.predict.possible import cannot_run, reasons_of
from steptime.predict.shards import shards_of
from steptime.predict.software import Software, software_named
from steptime.predict.stages import pieces_of
from steptime.program import MAIN, Collective, Compute, Kernel, Op, Program
from steptime.program.program import After, renumbered
from steptime.simulate.device import kernel_seconds
from steptime.timeline import Phase
from steptime.workloads.mesh import CONTEXT, TENSOR
from steptime.workloads.models import Transformer
from steptime.workloads.precision import element_bytes, update_bytes
from steptime.workloads.step import Step, hybrid_of
from steptime.workloads.sync import strategies_of_zero, sync_named

SLOWEST = "slowest device"
"""The name of the op in which all wait for the slowest of many devices."""

_BEHIND = 0.5
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
        self._tensor_ranks = int(layout["tensor"][0])
        self._loss_s = float(loss_seconds(model, layout, machine)[0])
        held = float(shards_of(model, layout).held[0]) * machine.software.held_bytes
        self._once_s = held / machine.device.memory_bandwidth + machine.software.step_s
        self._known: dict[tuple[int, str, str, bool], float] = {}

    def driven(self, op: Op) -> Op:
        """The op with the seconds, or the bytes, that it takes; what has neither as it is."""
        if isinstance(op, Collective):
            return replace(op, nbytes=self._moved(op) - self.hidden(op))
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

    def hidden(self, op: Op) -> int:
        """Of a call's bytes, those that move while its rank computes what it follows.

        Whole elements for each member, as every call has them.
        """
        if not isinstance(op, Collective) or op.group != (TENSOR,):
            return 0
        least = self._tensor_ranks * element_bytes(op.dtype)
        hidden = self._moved(op) * self._machine.software.tensor_overlap
        return round(hidden / least) * least

    def _moved(self, call: Collective) -> int:
        """The bytes of a call, those that backward gathers again included.

        Sequence-parallel ranks gather again what went into a half of a block, where the software
        does (arXiv 2205.05198, section 4.2.2), and context-parallel ones keys and values.
        """
        again = call.group == (CONTEXT,)
        if call.group == (TENSOR,):
            again = call.kind == "all_gather" and self._machine.software.regathers
        return call.nbytes * (1 + (again and call.name.startswith("backward")))

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


def driven_step(step: Step, cluster: Cluster) -> Step:
    """The step as its software drives the devices of a cluster; as it is where it names none.

    Raises UsageError where there is no such software, it runs no such layout, or the model is no
    transformer, of which alone its costs are known.
    """
    name, model = step.spec.software, step.model
    if name is None:
        return step
    if not isinstance(model, Transformer):
        raise UsageError(
            f"--software is for transformers, and {model.name} is {model.title}: leave it out"
        )
    software = software_named(name)
    layout = layouts_of([step.spec])
    if step.spec.schedule in (None, *SCHEDULES):
        _check_runs(model, layout, software)
    machine, cut = machine_of(cluster, software), as_cut(step, software)
    return replace(cut, program=driven(cut.program, model, layout, machine))


def as_cut(step: Step, software: Software) -> Step:
    """The step with the stages into which its software cuts the model.

    As it is where these are equal parts. The head is always in the last: where the software ends
    with a stage of the loss alone, the one before that passes on what it gets.
    """
    spec, model = step.spec, step.model
    count = (spec.pipeline or 1) * (spec.interleave or 1)
    if not software.even_stages or count == 1 or not isinstance(model, Transformer):
        return step
    pieces = pieces_of(model, count, even=True)
    one = hybrid_of(spec, model, layers=tuple(piece.end - piece.first for piece in pieces))
    return replace(step, program=replace(one.program, name=step.program.name), memory=one.memory)


def usual_strategy(software: Software, zero: int) -> str:
    """How a software moves gradients at a stage of ZeRO: behind computing where it hides half."""
    able = strategies_of_zero(zero)
    behind = [name for name in able if sync_named(name).overlapped]
    return behind[0] if behind and software.data_overlap >= _BEHIND else able[0]


def _check_runs(model: Transformer, layout: Layouts, software: Software) -> None:
    (why,) = reasons_of(cannot_run(model, layout, software))
    if why:
        raise UsageError(f"{software.name} runs no such layout of {model.name}: {why}")


def driven(program: Program, model: Transformer, layout: Layouts, machine: Machine) -> Program:
    """The program of a ``layout``, shape (1,), computing as the machine's software does.

    Its steps end with the wait for the slowest of many devices.
    """
    driver = _Driver(model, layout, machine)
    slowest_s = float(estimate(model, layout, machine).terms["imbalance"][0])
    wait = Compute(name=SLOWEST, seconds=slowest_s, phase=Phase.COMMUNICATION, stream=MAIN)
    ends = (wait,) if slowest_s else ()
    lists = tuple(_all_driven(ops, ends, driver) for ops in program.lists)
    return replace(program, lists=lists)


def _all_driven(ops: Sequence[Op], ends: Sequence[Op], driver: _Driver) -> tuple[Op, ...]:
    """The ops of a rank as they are driven, each call after the part of it that is hidden.

    That part begins with the computing that the call follows, on a stream that nothing waits for.
    ``ends``: what every step ends with.
    """
    made: list[Op] = []
    now: list[int] = []  # where each op is in the new list
    beside: After = ()
    for op in ops:
        if isinstance(op, Compute) and op.stream == MAIN:
            beside = op.after
        if isinstance(op, Collective) and (hidden := driver.hidden(op)):
            behind = f"{op.stream} behind computing"
            made.append(replace(op, nbytes=hidden, stream=behind, after=beside))
        now.append(len(made))
        made.append(driver.driven(op))
    return renumbered([*made, *ends], now)


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
