"""Closures of optimizers: a step that is given one makes its gradients within itself.

LBFGS needs one, and PyTorch Lightning gives one to every optimizer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Given: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""What ``Optimizer.step`` is called with, the optimizer first, as its hooks are given it."""


def once_made(
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    made: Callable[[], None],
    asked: Callable[[], None] = lambda: None,
) -> Given | None:
    """Call ``made`` once the gradients of a step are made: now, or whenever its closure has run.

    ``asked`` is called whenever the closure is about to run, which may be several times. The result
    is for the hook before the step to return: what the step is to be given, None as it was.
    """
    closure = options.get("closure", arguments[1] if len(arguments) > 1 else None)
    if not callable(closure):
        made()
        return None

    def making() -> Any:
        asked()
        result = closure()
        made()
        return result

    if "closure" in options:
        return tuple(arguments), {**options, "closure": making}
    return (arguments[0], making, *arguments[2:]), dict(options)
