"""Autograd: all private interfaces of torch.autograd that steptime uses, in one place.

Those of torch.distributed are in ``world/compat.py``; both are as in torch 2.13 to 2.15.
"""

from collections.abc import Iterator, Sequence
from ctypes import c_int64
from types import FrameType
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

_FORWARD = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]
_BACKWARD = BackwardCFunction.apply.__code__


def forward_of(frame: FrameType) -> tuple[type, Sequence[Any]] | None:
    """The autograd.Function whose forward a frame begins, and what it is given; else None."""
    if frame.f_code is not _FORWARD:
        return None
    return frame.f_locals["cls"], frame.f_locals["args"]


def backward_of(frame: FrameType) -> type | None:
    """The autograd.Function whose backward a frame begins; None where it begins none."""
    return frame.f_locals["self"]._forward_cls if frame.f_code is _BACKWARD else None


def node_of(function: type) -> type:
    """The class of the nodes that an autograd.Function leaves in the graph."""
    of: type = function._backward_cls  # type: ignore[attr-defined]
    return of


def rows_looked_up(node: Any) -> int:
    """How many rows of an embedding a node of the graph has given; 0 where it is of none."""
    return int(node._saved_indices.numel()) if node.name() == "EmbeddingBackward0" else 0


def is_transformed() -> bool:
    """Whether tensors stand for others now: torch.jit traces them, or torch.func transforms them.

    What is done with them then is done by the trace, or to each of a batch: look at none of them.
    """
    traced = torch._C._get_tracing_state() is not None
    return traced or torch._C._functorch.peek_interpreter_stack() is not None


def in_backward() -> bool:
    """Whether autograd runs a backward in this thread."""
    return bool(torch._C._current_graph_task_id() != -1)


def backward_input(
    outputs: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor] | None,
    inputs: Sequence[torch.Tensor],
    weights: Iterator[torch.nn.Parameter],
) -> list[dict[str, Any]]:
    """Put the gradients of the ``inputs`` into them; those of ``weights`` are left for later.

    ``gradients``: of the ``outputs``, whose graph is let go of; None for a loss. Returns what
    ``backward_weight`` needs.
    """
    from torch.distributed.pipelining import _backward  # a second: only these schedules need it

    given = None if gradients is None else list(gradients)
    return _backward.stage_backward_input(list(outputs), given, list(inputs), weights)[1]


def backward_weight(weights: Iterator[torch.nn.Parameter], later: list[dict[str, Any]]) -> None:
    """Add the gradients that ``backward_input`` left to those of the ``weights``."""
    from torch.distributed.pipelining import _backward

    _backward.stage_backward_weight(weights, later)


def cut_shard(node: Any) -> Any:
    """The DTensor's spec whose local part a node of the graph cuts along a sharded dimension.

    None where it does not: ``chunk`` and ``split`` leave such a node, ``DTensor.to_local`` the one
    before it (``_ToTorchTensor`` of torch/distributed/tensor/_api.py).
    """
    if not node.name().startswith("SplitBackward"):
        return None
    spec = getattr(node.next_functions[0][0], "dtensor_spec", None)
    sizes = node._saved_self_sym_sizes
    dim = c_int64(node._saved_dim).value % len(sizes)  # of one from the end C++ loses the sign
    placements = getattr(spec, "placements", ())
    return spec if any(one.is_shard(dim) for one in placements) else None
