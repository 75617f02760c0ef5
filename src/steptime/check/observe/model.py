"""Model: one under DistributedDataParallel, and what is seen of it between two steps."""

import weakref
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model:
    """A model under DDP, which it does not keep; places are numbers, 0 where there is none.

    ``armed``, ``quiet``: forwards through DDP since the last step, those within ``no_sync`` apart;
    ``begun``: how many backwards there were before the first of them; ``kept``: how many have been
    within ``no_sync`` in all; ``ends_quiet``: so was the last one.
    ``bypassed_at``: where parts of the model were run beside DDP since then. ``moved_at``: where
    its parameters were given another type or device after it was wrapped. ``looks``: DDP looks
    for unused parameters, for which it took ``looking_ns``; ``used``: those of this step.
    ``in_part``: it is reduced among some of the job's ranks alone; ``has_begun``: it has run.
    """

    def __init__(self, wrapped: DistributedDataParallel, number: int) -> None:
        self.number = number
        self.wrapped = weakref.ref(wrapped)
        self.name = type(wrapped.module).__name__
        self.reduced = {
            id(p): name for name, p in wrapped.module.named_parameters() if p.requires_grad
        }
        self.armed = self.quiet = self.inside = self.begun = self.kept = 0
        self.cleared = self.ends_quiet = False
        self.bypassed_at = self.moved_at = 0
        self.looks = bool(wrapped.find_unused_parameters)
        self.wrapped_at = 0
        self.used: set[int] = set()
        self.has_unused = False
        self.forward_end = self.looking_ns = 0
        self.has_begun = False
        self.in_part = wrapped.process_group.size() < dist.get_world_size()

    def replicated(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """The parameters that should be the same on all ranks, by name."""
        wrapped = self.wrapped()
        if wrapped is not None:
            ignored = wrapped.parameters_to_ignore
            for name, parameter in wrapped.module.named_parameters():
                if name not in ignored:
                    yield name, parameter

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """All of them, those too that DDP is told to ignore."""
        wrapped = self.wrapped()
        return iter(()) if wrapped is None else wrapped.module.parameters()

    def unused(self) -> str:
        """The first parameter that was given no gradient though DDP waits for one; "": none."""
        wrapped = self.wrapped()
        if wrapped is None or self.looks or wrapped.static_graph:
            return ""
        return next((name for name, one in self.replicated() if _waits_for(one)), "")

    def replaced(self) -> str:
        """The first parameter that DDP waits for and the model has no more; "": none."""
        wrapped = self.wrapped()
        if wrapped is None or self.looks or wrapped.static_graph:
            return ""
        present = {id(parameter) for parameter in wrapped.module.parameters()}
        return next((name for of, name in self.reduced.items() if of not in present), "")

    @property
    def sends_buffers(self) -> bool:
        """Whether DDP gives all ranks the buffers of the first before each forward."""
        wrapped = self.wrapped()
        return wrapped is not None and bool(wrapped.broadcast_buffers)

    def is_cleared(self) -> bool:
        """Whether no parameter has a gradient."""
        return all(parameter.grad is None for _, parameter in self.replicated())

    def stepped(self) -> None:
        """A step has ended: what was seen belongs to it."""
        self.has_unused |= bool(self.armed) and self.used != self.reduced.keys()
        self.used.clear()
        self.armed = self.quiet = self.bypassed_at = 0


def _waits_for(parameter: torch.nn.Parameter) -> bool:
    return parameter.requires_grad and parameter.grad is None
