"""Unreduced: why gradients of a model under DistributedDataParallel were not reduced, in words."""

from collections.abc import Callable, Mapping

from steptime.check.observed import Seen


def _bypassed(one: Seen) -> tuple[str, str]:
    return (
        f"{_name(one)} is run beside its DistributedDataParallel at {one.facts['at']}: DDP does "
        f"not see that forward, so no gradient is reduced and every rank trains a model of its own",
        "call the model that DistributedDataParallel returned, not model.module; for another "
        "method than forward let forward call it",
    )


def _lost(one: Seen) -> tuple[str, str]:
    return (
        f"{_name(one)} runs under DistributedDataParallel, but no gradient is reduced: the hooks "
        f"of DDP are lost, as by moving the parameters to another type or device after wrapping",
        "move and convert the model first, and wrap it in DistributedDataParallel then",
    )


def _no_backward(one: Seen) -> tuple[str, str]:
    return (
        f"the optimizer steps at {one.facts['at']} with gradients of {_name(one)} that no backward "
        "made: DistributedDataParallel reduces in one, and not where torch.autograd.grad is called",
        "call backward, or all_reduce what torch.autograd.grad gives",
    )


def _hook(one: Seen) -> tuple[str, str]:
    return (
        f"{_name(one)} runs under DistributedDataParallel with a communication hook that reduces "
        f"nothing: each rank steps at {one.facts['at']} by gradients of its own",
        "let the hook return what an all_reduce of bucket.buffer() gives, divided by the number of "
        "ranks",
    )


def _unused(one: Seen) -> tuple[str, str]:
    return (
        f"the optimizer steps at {one.facts['at']} though {one.facts['parameter']} of {_name(one)} "
        f"got no gradient: DDP waits for those of all its parameters before it ends a reduction, "
        f"and nothing was reduced",
        "let every parameter take part in each loss, as by adding 0 * sum of what was left out, or "
        "give DistributedDataParallel find_unused_parameters=True",
    )


def _quiet(one: Seen) -> tuple[str, str]:
    return (
        f"the optimizer steps at {one.facts['at']} with gradients of {_name(one)} that were all "
        f"made within no_sync: no gradient is reduced, every rank trains a model of its own",
        "run forward and backward of the last micro-batch before each step outside no_sync",
    )


def _quiet_end(one: Seen) -> tuple[str, str]:
    return (
        f"the optimizer steps at {one.facts['at']} with gradients of {_name(one)} of which the "
        f"last part was made within no_sync: what came before it was reduced, and it was not",
        "reduce the gradients of the last micro-batch before each step, and no other's: it alone "
        "runs outside no_sync",
    )


def _late(one: Seen) -> tuple[str, str]:
    return (
        f"{one.facts['parameter']} of {_name(one)} is trained but not reduced: it came to the "
        f"model, or was made trainable, after DistributedDataParallel had wrapped it",
        "change the model, and what is trained of it, before DistributedDataParallel wraps it, or "
        "wrap it anew",
    )


def _replaced(one: Seen) -> tuple[str, str]:
    return (
        f"{one.facts['parameter']} of {_name(one)} was replaced after DistributedDataParallel had "
        f"wrapped it: DDP waits for a gradient of the old one before it ends a reduction, and "
        f"nothing was reduced",
        "change the model first and wrap it in DistributedDataParallel then",
    )


def _name(one: Seen) -> str:
    return str(one.facts["model"]).rpartition(" ")[0]


SENTENCES: Mapping[str, Callable[[Seen], tuple[str, str]]] = {
    "bypassed": _bypassed,
    "hook": _hook,
    "no backward": _no_backward,
    "lost": _lost,
    "unused": _unused,
    "quiet": _quiet,
    "quiet end": _quiet_end,
    "late": _late,
    "replaced": _replaced,
}
"""What is wrong and how to mend it, by the fault that was noted."""
