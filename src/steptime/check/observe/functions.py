"""Functions of autograd that a script has written: which of them makes a call, and when."""

from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch

from steptime.check.observe.buffers import tensors_in
from steptime.check.observe.contained import caller
from steptime.check.observe.tensors import is_followed
from steptime.world import autograd

_DEEPEST = 24


class Within(NamedTuple):
    """A torch.autograd.Function at work: in its ``backward``, or in a forward.

    ``follows``: autograd will ask for the gradient of what this forward is ``given``.
    """

    function: type
    backward: bool
    follows: bool
    given: Sequence[Any] = ()


def within_function() -> Within | None:
    """The innermost torch.autograd.Function that runs here; None where there is none.

    What its backward does by forwards of others, as torch's own functions do, is its doing.
    """
    forward: Within | None = None
    frame: FrameType | None = caller()
    for _ in range(_DEEPEST):
        if frame is None:
            break
        if (function := autograd.backward_of(frame)) is not None:
            return Within(function, True, True)
        if forward is None and (begun := autograd.forward_of(frame)) is not None:
            forward = Within(begun[0], False, _need_gradient(begun[1]), begun[1])
        frame = frame.f_back
    return forward


def nodes_of(given: Sequence[Any]) -> list[Any]:
    """The nodes of autograd's graph that have computed what a call or a function is given."""
    plain = [one for one in tensors_in(given) if type(one) is torch.Tensor]
    return [one.grad_fn for one in plain if is_followed(one) and one.grad_fn is not None]


def _need_gradient(arguments: Sequence[Any]) -> bool:
    return any(one.requires_grad for one in tensors_in(arguments))
