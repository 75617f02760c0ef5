"""Backwards that a script begins, and the graphs that autograd goes through in them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from steptime.check.observe.contained import Contained
from steptime.check.observe.replaced import before


def watched_backwards(
    contained: Contained, begun: Callable[[Sequence[Any]], object]
) -> Callable[[], None]:
    """Tell ``begun`` what each backward begins at; the result ends that."""

    def begins(tensors: Any, *_: Any, **__: Any) -> None:
        if isinstance(tensors, torch.Tensor | list | tuple):
            begun(tensors if isinstance(tensors, list | tuple) else [tensors])

    return before([torch.autograd], "backward", contained.of(begins))


def nodes_of(roots: Sequence[Any], most: int) -> Iterator[Any]:
    """The nodes of autograd's graph that lead to some tensors, nearest first: ``most`` at most."""
    waiting = deque(node for one in roots if (node := getattr(one, "grad_fn", None)) is not None)
    known = set(waiting)
    while waiting and most:
        node = waiting.popleft()
        most -= 1
        yield node
        for later, _ in node.next_functions:  # in the backward
            if later is not None and later not in known:
                known.add(later)
                waiting.append(later)
