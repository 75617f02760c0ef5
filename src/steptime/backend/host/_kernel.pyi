# The kernel in C: src/steptime/backend/kernel/. Addresses are those of this process.

from collections.abc import Callable, Sequence, Sized
from threading import Lock
from typing import Protocol

from torch import Tensor

# The instructions that reductions use: avx512, avx2, or nothing where there is no choice.
INSTRUCTIONS: str

# How many operations folds.h counts: the code of a reduction is type * OPERATIONS + operation.
OPERATIONS: int

# Who makes a call, and is asked while it lasts; what these raise ends the call.
class Host(Protocol):
    # Called now and then while the call waits, and with 0 when that wait is over.
    def watch(self, waiting: int) -> None: ...
    # The part of a rank's arena around an offset: its bounds, and where it is mapped.
    def mapping(self, rank: int, offset: int) -> tuple[int, int, int]: ...

# A rank's side of a group; kernel/group.h describes the memory.
class Group:
    count: int
    number: int
    turn: int

    def __init__(
        self, rank: int, ranks: int, looks: int, words: int, slots: int, slot_bytes: int
    ) -> None: ...
    # Pass the next point of the barrier; True.
    def step(self, host: Host, /) -> bool: ...
    # Begin a call and pass the next point; whether all ranks call the same.
    def arrive(self, host: Host, call: bytes, /) -> bool: ...
    # Reduce into a rank's, in place, ``where`` being the offset in this rank's arena, or CLOSED; as
    # ``arrive``. Parts are given by their addresses.
    def reduce(
        self, host: Host, call: bytes, data: int, elements: int, code: int, root: int, where: int, /
    ) -> bool: ...
    # Copy the bytes of a rank to all.
    def broadcast(
        self, host: Host, call: bytes, data: int, size: int, root: int, where: int, /
    ) -> bool: ...
    # Copy the bytes of each rank into the output for it, of the ranks that have any.
    def gather(
        self,
        host: Host,
        call: bytes,
        outputs: tuple[int, ...] | None,
        source: int,
        size: int,
        where: int,
        /,
    ) -> bool: ...
    # Copy the root's inputs, which lie at ``places``, into everyone's output.
    def scatter(
        self,
        host: Host,
        call: bytes,
        output: int,
        inputs: tuple[int, ...] | None,
        places: tuple[int, ...] | None,
        size: int,
        root: int,
        /,
    ) -> bool: ...
    # Reduce everyone's input for this rank into its output.
    def reduce_scatter(
        self,
        host: Host,
        call: bytes,
        output: int,
        inputs: tuple[int, ...],
        elements: int,
        code: int,
        where: int,
        /,
    ) -> bool: ...
    # Exchange parts of one size; None, on all ranks, where any has given CLOSED or another size.
    def all_to_all(
        self,
        host: Host,
        call: bytes,
        outputs: tuple[int, ...],
        inputs: tuple[int, ...],
        size: int,
        where: int,
        /,
    ) -> bool | None: ...
    # Then exchange parts of any sizes; None, on all ranks, where sizes sent and expected differ.
    def exchange(
        self,
        host: Host,
        outputs: tuple[int, ...],
        inputs: tuple[int, ...],
        sent: tuple[int, ...],
        expected: tuple[int, ...],
        places: tuple[int, ...],
        /,
    ) -> bool | None: ...
    # Wake the ranks that wait for this one.
    def wake(self) -> None: ...

# One side of a channel; kernel/channel.h describes it. A call waits for some 50 ms at most: where
# it returns False, ``go_on`` goes on with it.
class Channel:
    # The process that writes, as the reader calls it.
    writer: int
    # Not 0 while a message is half written: ``go_on`` comes first.
    writing: int
    # Not 0 while a message is on offer: its reader needs nobody to take it.
    offered: int

    def __init__(self, words: int, ring: int, looks: int, writer: int) -> None: ...
    # Write a message if there is room for it now.
    def try_put(self, call: bytes, tag: int, place: int, size: int, /) -> bool: ...
    # Write a message; it stays as it is until that is done, or ``withdraw``. ``where`` is its
    # offset in this process' arena, or CLOSED.
    def put(self, call: bytes, tag: int, place: int, size: int, where: int, /) -> bool: ...
    # Begin to write a message, which its reader is to copy, if that needs no waiting.
    def offer(self, call: bytes, tag: int, place: int, size: int, where: int, /) -> bool: ...
    # The offset in its writer's arena of the next message, if that part is not mapped yet.
    def unmapped(self) -> int | None: ...
    # A part of the writer's arena: its bounds, and the address where it is mapped here.
    def map(self, start: int, end: int, address: int, /) -> None: ...
    # Look for the next message for some microseconds: whether some of it has arrived.
    def expect(self) -> bool: ...
    # Read the next message, some of which has arrived.
    def get(self, place: int, size: int, /) -> bool: ...
    # ``get`` if it is of this tag and size, and can be had now; else None.
    def take(self, call: bytes, tag: int, place: int, size: int, /) -> bool | None: ...
    def go_on(self) -> bool: ...
    # Whether what it would wait for has not come yet.
    def waits(self) -> bool: ...
    # Whether no message is half written, now that the reader has been looked for.
    def is_free(self) -> bool: ...
    def withdraw(self) -> None: ...
    # The call and the tag of the next message, if any has arrived.
    def head(self) -> bytes | None: ...
    # The bytes written so far.
    def written(self) -> int: ...
    # Wait until more have been written.
    def await_more(self, written: int, /) -> bool: ...

# The lane of a call: only where these say that none comes first a call is made past it.
class Lane(Protocol):
    @property
    def tasks(self) -> Sized: ...
    @property
    def failure(self) -> BaseException | None: ...
    @property
    def turn(self) -> Lock: ...
    @property
    def crew(self) -> Crew: ...

# What tells whether the group has failed.
class Members(Protocol):
    @property
    def failure(self) -> BaseException | None: ...

# Whose latest call is 0 since a message has been sent.
class Crew(Protocol):
    latest: int

# Collectives of a group, by torch's tensors and options: past Python, where the call is waited for,
# its tensors are contiguous, on the CPU and of types that folds.h has, and no other call comes
# first. They return whether they have done it, and raise what it fails with, after ``failed`` has
# been called with that.
class Quick:
    def __init__(
        self,
        # Asked while a call waits; and it has what ``refuse`` and ``exchange_even`` of Kernel do.
        kernel: Host,
        group: Group,
        lane: Lane,
        members: Members,
        failed: Callable[[BaseException], None],
        # Of the arena, which grows: addresses of the first byte and of the end, and the offset.
        segments: Sequence[tuple[int, int, int, memoryview]],
        # By torch's number of an operation: that of folds.h, and its name.
        operations: tuple[tuple[int, str], ...],
        # The types of folds.h as calls encode them.
        dtypes: bytes,
        # The ranks of the members as calls name them.
        names: tuple[int, ...],
    ) -> None: ...
    def all_reduce(self, tensors: list[Tensor], opts: object, /) -> bool: ...
    def broadcast(self, tensors: list[Tensor], opts: object, /) -> bool: ...
    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: object, /) -> bool: ...
    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: object, /) -> bool: ...
    def all_to_all_single(
        self,
        output: Tensor,
        tensor: Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: object,
        /,
    ) -> bool: ...

# Brief messages of a channel under one tag, as Quick has collectives: lists of one tensor.
class Route:
    def __init__(
        self,
        channel: Channel,
        # Whether a thread uses the channel.
        is_used: Callable[[], bool],
        # What has been taken from it for other tags.
        kept: Sized,
        lane: Lane,
        members: Members,
        crew: Crew,
        dtypes: bytes,
        name: int,
        tag: int,
    ) -> None: ...
    def send(self, tensors: list[Tensor], /) -> bool: ...
    # Looks a while for the message where the lane ``is_awaited_at_once``.
    def receive(self, tensors: list[Tensor], /) -> bool: ...

# Receive (POLLIN) into memory or send (POLLOUT) it, by connections given as (file descriptor,
# event, memory), until one is done or nothing can be done for ``nap_s`` seconds. Where memory is
# None the call ends at the event. Returns whether it slept before anything came, after ``look_s``
# seconds of looking, and for each connection the bytes moved, or -1 where it is lost; for None,
# the events of poll(2).
def move(
    jobs: list[tuple[int, int, memoryview | None]], look_s: float, nap_s: float, /
) -> tuple[bool, list[int]]: ...
