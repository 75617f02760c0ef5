"""What a rank keeps of a model: as a record has it, in words, and what would fit if it does not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from steptime.cluster import Cluster
from steptime.predict.layouts import SCHEDULES, layouts_of
from steptime.predict.memory import memory as predicted
from steptime.predict.software import software_named
from steptime.runs.figures import ModelMemory, StepFigures, UnderSoftware, WouldFit
from steptime.units import format_bytes
from steptime.workloads.fitting import Tight, nearest_fits
from steptime.workloads.model_memory import Memory
from steptime.workloads.models import Transformer
from steptime.workloads.precision import element_bytes
from steptime.workloads.step import Step

_SOFTWARE = "megatron"  # plan's, where nothing else is said


def memory_of(memory: Sequence[Memory], device_bytes: float | None = None) -> ModelMemory:
    """What the rank that keeps most of a model keeps.

    ``device_bytes``: the memory of the device where that is known.
    """
    most = max(memory, key=lambda one: one.total)
    return ModelMemory(
        total=most.total,
        **asdict(most),
        device_bytes=int(device_bytes) if device_bytes is not None else None,
        fits=most.total <= device_bytes if device_bytes is not None else None,
    )


def memory_on(step: Step, cluster: Cluster | None) -> ModelMemory:
    """What the rank that keeps most of a step's model keeps, on a cluster's devices if given.

    Where that fits, and it would not under its software, or else that which ``plan`` takes, that is
    told too.
    """
    if cluster is None:
        return memory_of(step.memory)
    found, device = memory_of(step.memory, cluster.device.memory), cluster.device.memory
    software = step.spec.software or _SOFTWARE
    total = _under_software(step, software) if found.fits else 0
    more = UnderSoftware(software=software, total=total) if total > device else None
    return replace(found, too_much=more)


def _under_software(step: Step, name: str) -> int:
    """What a rank keeps of a step under a software; 0 where no closed form knows it."""
    spec, model = step.spec, step.model
    if not isinstance(model, Transformer) or spec.schedule not in (None, *SCHEDULES):
        return 0
    summed = element_bytes(str(spec.reduce_dtype))
    software = replace(software_named(name), gradient_bytes=summed)
    return round(float(predicted(model, layouts_of([spec]), software).total[0]))


def with_fits(memory: ModelMemory, step: Step, cluster: Cluster, **said: str) -> ModelMemory:
    """The same with the nearest changes of the step with which it would fit, where it does not.

    ``said``: fields of the step that the command does not say.
    """
    if memory.fits is not False:
        return memory
    tight = Tight(
        spec=step.asked,
        full=step.spec,
        model=step.model,
        device_bytes=cluster.device.memory,
        host_devices=cluster.devices // cluster.hosts,
        said=said,
    )
    fits = [
        WouldFit(**asdict(fit), has_places=fit.ranks <= cluster.order.size)
        for fit in nearest_fits(tight)
    ]
    return replace(memory, would_fit=fits)


def memory_lines(memory: ModelMemory) -> Iterator[str]:
    """What ``memory_of`` gives, for people."""
    yield f"memory of the model, computed: {format_bytes(memory.total)} a rank at most"
    parts = ("parameters", "gradients", "optimizer", "passing", "activations")
    sizes = ((name, getattr(memory, name)) for name in parts)
    told = [f"{name} {format_bytes(nbytes)}" for name, nbytes in sizes if nbytes]
    yield f"  {', '.join(told[:3])}{',' * (len(told) > 3)}"
    if told[3:]:
        yield f"  {', '.join(told[3:])}"
    if memory.too_much:
        yield (
            f"  under {memory.too_much.software} {format_bytes(memory.too_much.total)}, more than "
            f"the {format_bytes(memory.device_bytes or 0)} of its device:"
        )
        yield "  buffers, copies of logits and fragments are not counted above"


def misfit(memory: ModelMemory | None) -> str:
    """That a rank keeps more than its device has, and what would fit; empty where it fits."""
    if memory is None or memory.fits is not False:
        return ""
    found = [
        f"{one.options} ({format_bytes(one.total)})"
        + " on a larger cluster of such devices" * (not one.has_places)
        for one in memory.would_fit
    ]
    remedy = f" It would with {', or with '.join(found)}." if found else ""
    return f"{needed(memory)} (computed).{remedy}"


def needed(memory: ModelMemory) -> str:
    """What a rank keeps beside what there is."""
    there = format_bytes(memory.device_bytes or 0)
    return f"a rank keeps {format_bytes(memory.total)} and its device has {there}"


def misfits(strategies: Mapping[str, StepFigures]) -> str:
    """Which of several steps do not fit, and what would if none does; empty where all fit."""
    unfit = {name: one.model_memory for name, one in strategies.items() if one.fits is False}
    if not unfit:
        return ""
    least = min(filter(None, unfit.values()), key=lambda memory: memory.total)
    which = "" if len(strategies) == 1 else f"{', '.join(unfit)}: "
    if len(unfit) == len(strategies) > 1:
        which = "none of the strategies; of the least "
    return which + misfit(least)
