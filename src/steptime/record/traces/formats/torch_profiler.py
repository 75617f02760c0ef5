"""torch.profiler (Kineto): operators, annotations, kernels, and the calls of a rank.

``epoch_ns = ts * 1000 + baseTimeNanoseconds`` puts all ranks on their wall clocks; a trace without
a base counts from 1970. Steps are those of the profiler (ProfilerStep#), else of the script's own
annotations, else from one end of the optimizer's step to the next.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from steptime.record.traces.document import Document
from steptime.record.traces.format import Format
from steptime.record.traces.profiled import Profiled, Slice, Within, groups_of, profiled
from steptime.record.traces.profiled_calls import calls_of, communicates
from steptime.record.traces.trace import RankTrace, Span, Step
from steptime.timeline import Phase

_STEP = re.compile(r"^(.*?(?:step|iter(?:ation)?))\W*(\d{0,15})$", re.IGNORECASE)
_OF_TORCH = ("Optimizer.", "enumerate(", "DistributedDataParallel.", "FSDP::", "ProfilerStep")
_KEYS = ("schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds")


def _is_profile(document: Document) -> bool:
    return "traceEvents" in document.keys and any(key in document.keys for key in _KEYS)


def _read(document: Document) -> list[RankTrace]:
    found, groups = profiled(document), groups_of(document)
    calls, untold = calls_of(found, groups)
    steps, steps_by = _steps(found)
    spans = [*(_device_spans(found) if found.device else ()), *_host_spans(found)]
    if not (spans or calls or steps):
        return []
    if not found.device:
        untold.append("the script's own Python between operators, which counts as other")
    backends = {call.group.backend for call in calls}
    return [
        RankTrace(
            rank=groups.rank,
            world_size=groups.world_size,
            host=document.told("host_name", str, ""),
            backend=groups.backend or ", ".join(sorted(backends)),
            steps=steps,
            steps_by=steps_by,
            spans=spans,
            calls=calls,
            untold=untold,
        )
    ]


def _steps(found: Profiled) -> tuple[list[Step], str]:
    """The steps of a rank, and what told where they end."""
    marked: dict[int, Step] = {}
    for one in found.annotations:
        if one.name.startswith("ProfilerStep#") and (digits := one.name[13:]).isdecimal():
            marked.setdefault(int(digits), Step(int(digits), one.begin, one.end))
    if marked:
        return sorted(marked.values(), key=lambda step: step.begin), "ProfilerStep#"
    own = _own_steps(found.annotations)
    if own:
        return own
    ends = _optimizer(found)
    first = [one.end for one in ends if one.name == ends[0].name]
    steps = [Step(at, begin, end) for at, (begin, end) in enumerate(pairwise(first))]
    return (steps, "the optimizer's step") if steps else ([], "")


def _own_steps(annotations: Sequence[Slice]) -> tuple[list[Step], str] | None:
    """The annotations of the script that are called a step or an iteration, if several are."""
    by_name: dict[str, list[tuple[str, Slice]]] = {}
    for one in annotations:
        said = None if one.name.startswith(_OF_TORCH) else _STEP.match(one.name)
        if said is not None:
            by_name.setdefault(said[1], []).append((said[2], one))
    several = {name: own for name, own in by_name.items() if len(own) > 1}
    if not several:
        return None
    name = max(several, key=lambda name: sum(one.end - one.begin for _, one in several[name]))
    numbers = [number for number, _ in several[name]]
    counted = all(numbers) and len({int(number) for number in numbers}) == len(numbers)
    return [
        Step(int(number) if counted else at, one.begin, one.end)
        for at, (number, one) in enumerate(several[name])
    ], f"the annotation {name}"


def _optimizer(found: Profiled) -> list[Slice]:
    return [one for one in found.annotations if one.name.startswith("Optimizer.step")]


def _device_spans(found: Profiled) -> Iterator[Span]:
    """Kernels that compute or update, and copies, on the device's streams.

    What the thread launches within the optimizer's step is update.
    """
    optimizer = Within.of(_optimizer(found))
    for one in found.device:
        if one.is_kernel and communicates(one):
            continue
        phase = Phase.COMPUTE if one.is_kernel else Phase.OTHER
        launched = found.launched.get(_correlation(one))
        if one.is_kernel and launched and optimizer.find(*launched):
            phase = Phase.UPDATE
        yield Span(f"stream {one.thread[1]}", one.name, phase, one.begin, one.end)


def _correlation(one: Slice) -> int:
    value = one.args.correlation
    return value if isinstance(value, int) else -1


def _host_spans(found: Profiled) -> Iterator[Span]:
    """The outermost operators of each thread; they compute where there is no device.

    Those on the threads of gloo are part of its calls, which have spans of their own.
    """
    gloo = (one for one in found.spans if one.name.startswith("gloo:"))
    workers = {one.thread for one in gloo if not one.name.endswith(("send", "recv"))}
    optimizer, on_host = Within.of(_optimizer(found)), not found.device
    names: dict[tuple[str, str], str] = {}
    done: dict[tuple[str, str], int] = {}

    def stream(one: Slice) -> str:
        number = len(names) + 1
        return names.setdefault(one.thread, f"host {number}" if number > 1 else "host")

    for one in found.operators:
        nested = one.begin < done.get(one.thread, one.begin)
        if nested or one.thread in workers or optimizer.find(one.thread, one.begin):
            continue
        done[one.thread] = one.end
        phase = Phase.COMPUTE if on_host else Phase.OTHER
        yield Span(stream(one), one.name, phase, one.begin, one.end)
    for one in found.annotations:
        if one.name.startswith("Optimizer.step"):
            phase = Phase.UPDATE if on_host else Phase.OTHER
            yield Span(stream(one), "optimizer", phase, one.begin, one.end)
        elif one.name.startswith("enumerate(DataLoader)"):
            yield Span(stream(one), "data loading", Phase.OTHER, one.begin, one.end)


FORMAT = Format("torch.profiler trace", _is_profile, _read)
