from collections.abc import Callable, Mapping, Sequence
from typing import Any

# What _dispatch is given: recorder/event.h.
functions: object

# rows.PythonRows in C
class Rows:
    def __init__(self, grow: Callable[[int], None]) -> None: ...
    def begin(self, file: int, room: int, /) -> None: ...
    def extend(self, room: int, /) -> None: ...
    def write(
        self,
        kind: int,
        issued: int,
        returned: int = 0,
        ended: int = 0,
        operation: int = 0,
        flags: int = 0,
        group: int = 0,
        peer: int = -1,
        site: int = 0,
        signature: int = 0,
        nbytes: int = 0,
        address: int = 0,
    ) -> int: ...
    def issued(self, number: int, /) -> int: ...
    def returned(self, number: int, when: int, /) -> None: ...
    def end(self, number: int, when: int, /) -> None: ...
    def waited(self, number: int, begin: int, end: int, /) -> None: ...
    def waited_at_once(self, number: int, returned: int, end: int, /) -> None: ...

# device.PythonMarks in C, in which ``functions`` are the addresses of those of CUDA's runtime that
# marks.c names.
class Marks:
    def __init__(
        self, *, file: int, current_stream: Callable[[int], int], functions: Sequence[int]
    ) -> None: ...
    def take(self) -> int | None: ...
    def keep(self, number: int, time_of: int, mark: int | None, /) -> None: ...
    def drain(self) -> int: ...
    def close(self) -> None: ...

# What the dispatcher calls for an operator, or ``otherwise``. ``group``, ``peer`` and
# ``waits`` are positions of arguments, -1: none; of the ``tensors``, too, which stand there as
# ``depth`` of Operation says.
class Kernel:
    def __init__(
        self,
        *,
        number: int,
        group: int,
        peer: int,
        waits: int,
        tensors: int,
        depth: int,
        reduces: bool,
        times_group: bool,
        rows: object,
        calls: Any,
        log: Any,
        of_thread: Any,
        watchers: Sequence[Any],
        groups: Mapping[int, Any],
        signatures: Mapping[Any, tuple[int, int]],
        sites: Mapping[tuple[int, ...], int],
        origins: Mapping[str, int],
        origin: Callable[..., int],
        site_in_package: Callable[..., int],
        reductions: Mapping[int, str],
        reduction_name: Callable[[Any], str],
        vector: Callable[..., Any],
        detail: Callable[..., Any] | None,
        unbox: Callable[[Any], Any],
        unbox_work: Callable[[Any], Any],
        redispatch: Callable[..., Any] | None,
        below: Any,
        otherwise: Callable[..., Any] | None,
    ) -> None: ...
    def __call__(self, keyset: Any, *arguments: Any) -> Any: ...

# A method of a group that is a Python class; ``kernel`` is that of its operation, and takes the
# arguments without the group. ``peer`` as kernels.py numbers it.
class Method:
    def __init__(
        self,
        *,
        peer: int,
        reduces: bool,
        is_message: bool,
        rows: object,
        kernel: Kernel,
        calls: Any,
        of_thread: Any,
        watchers: Sequence[Any],
        reduction_name: Callable[[Any], str],
        method: Callable[..., Any],
        pending: Callable[[int, Any], None],
        otherwise: Callable[..., Any],
    ) -> None: ...
    def __call__(self, group: Any, *arguments: Any, **options: Any) -> Any: ...

# The method ``wait`` of a class of Works; ``otherwise`` where it is for no call that was just made.
class Wait:
    def __init__(
        self,
        *,
        rows: object,
        of_thread: Any,
        watchers: Sequence[Any],
        wait: Callable[..., Any],
        otherwise: Callable[..., Any],
    ) -> None: ...
    def __call__(self, work: Any, *arguments: Any, **options: Any) -> Any: ...
