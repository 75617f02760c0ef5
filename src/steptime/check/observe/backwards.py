"""Backwards that a script begins, and the graphs that autograd goes through in them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from steptime.check.observe.contained import Contained
from steptime.check.observe.replaced import Function, replaced


def watched_backwards(
    contained: Contained, begun: Callable[[Sequence[Any]], object]
) -> Callable[[], None]:
    """Tell ``begun`` what each backward begins at; the result ends that."""
    told = contained.of(begun)

    def beginning(backward: Function) -> Function:
        def begins(*arguments: Any, **options: Any) -> Any:
            given = arguments[0] if arguments else options.get("tensors")
            if isinstance(given, torch.Tensor | list | tuple) and not torch.compiler.is_compiling():
                told(given if isinstance(given, list | tuple) else [given])
            return backward(*arguments, **options)

        return begins

    return replaced([torch.autograd], "backward", beginning)


def nodes_of(roots: Sequence[Any], most: int) -> Iterator[Any]:
    """The nodes of autograd's graph that lead to some tensors, nearest first: ``most`` at most."""
    waiting = deque(node for one in roots if (node := getattr(one, "grad_fn", None)) is not None)
    known = set(waiting)
    while waiting and most:
        node = waiting.popleft()
        most -= 1
        yield node
        for before, _ in node.next_functions:
            if before is not None and before not in known:
                known.add(before)
                waiting.append(before)
