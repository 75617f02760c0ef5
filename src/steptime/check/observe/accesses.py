"""Accesses: what every operator of PyTorch reads and writes, while somebody wants to know."""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from steptime.check.observe.buffers import tensors_in
from steptime.world import compat

Seen = Callable[[torch.Tensor, bool], None]
"""Is given each tensor that an operator takes, and whether the operator writes it."""

_CALLS = ("c10d", "_c10d_functional", "c10d_functional")
_SHAPE_ALONE = ("_like", "new_")
"""What makes a tensor like another does not read that."""


class Accesses:
    """Watches the operators of a thread while ``wanted`` says so.

    It asks whenever ``attend`` is called: PyTorch takes a mode away that was entered in a hook of
    backward, so it may have to be entered anew.
    """

    def __init__(self, seen: Seen, wanted: Callable[[], bool]) -> None:
        self._seen = seen
        self._wanted = wanted
        self._of_thread = threading.local()

    def attend(self) -> None:
        """Watch this thread from now on, or no longer, as it is wanted."""
        mode = getattr(self._of_thread, "mode", None)
        if mode is None:
            mode = self._of_thread.mode = _Mode(self._seen)
        if mode.busy:
            return
        stack = compat.dispatch_modes()
        if self._wanted():
            if not any(one is mode for one in stack):
                mode.__enter__()
        elif stack and stack[-1] is mode:
            mode.__exit__(None, None, None)


class _Mode(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, seen: Seen) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen
        self.busy = False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile go on as if nobody watched."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: that imports torch._dynamo at the first operator, for seconds in which calls end."""
        return False

    @compat.left_alone
    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        kwargs = kwargs or {}
        self.busy = True
        try:
            for name, writes in _uses(function):
                value = args[name] if isinstance(name, int) and name < len(args) else None
                value = kwargs.get(name) if isinstance(name, str) else value
                for tensor in tensors_in(value):
                    self._seen(tensor, writes)
            return function(*args, **kwargs)
        finally:
            self.busy = False


@cache
def _uses(function: Any) -> list[tuple[int | str, bool]]:
    """The arguments of an operator whose elements it uses, and whether it writes them."""
    schema = getattr(function, "_schema", None)
    if schema is None or function.namespace in _CALLS:
        return []
    name = schema.name.partition("::")[2]
    if name.endswith(_SHAPE_ALONE[0]) or name.startswith(_SHAPE_ALONE[1]):
        return []
    views = any(one.alias_info and not one.alias_info.is_write for one in schema.returns)
    found: list[tuple[int | str, bool]] = []
    for number, argument in enumerate(schema.arguments):
        writes = argument.alias_info is not None and argument.alias_info.is_write
        if "Tensor" in str(argument.type) and (writes or not views):
            found.append((argument.name if argument.kwarg_only else number, writes))
    return found
