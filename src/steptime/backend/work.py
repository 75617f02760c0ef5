"""Works: the handles of a group's calls, to be waited for, asked, or given to torch as futures."""

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.futures import Future

from steptime.world.compat import Work, left_alone
from steptime.world.environment import LostContactError

if TYPE_CHECKING:
    from steptime.backend.lanes import Lane

_running: ContextVar["Task | None"] = ContextVar("_running", default=None)


def is_awaited() -> bool:
    """Whether a caller waits for the call that this thread carries out."""
    task = _running.get()
    return task is None or task.blocks


class Task(Work):
    """The Work of a queued call.

    ``wait`` raises what the call failed with. So does the future, as a RuntimeError with the same
    text: C++ code that waits does not see an exception that is merely set on a torch future.
    """

    # What most tasks leave as it is stands here, where it takes no time to make one.
    _completed = False
    blocks = False
    """Whether a caller waits for the end of the call."""
    _error: BaseException | None = None
    _source = -1
    rests: Callable[[], bool] | None = None
    """Tells whether the call comes to its end without anybody's help, if it ever does."""
    _ended = False
    _finished: "threading.Lock | None" = None
    _gate: Future[None] | None = None
    _future: Future[list[Tensor]] | None = None
    _observers: Sequence[Callable[[bool], None]] = ()

    def __init__(
        self,
        lane: "Lane",
        results: Sequence[Tensor],
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        rests: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__()
        self._lane = lane
        self._results = results
        self._function = function
        self._arguments = arguments
        self._changes = threading.Lock()
        if rests is not None:
            self.rests = rests

    def carry_out(self) -> None:
        """Make the call; the thread that has the lane's turn does so, once."""
        try:
            _running.set(self)
            source = self._lane.call(self._function, self._arguments)
            self._source = source if isinstance(source, int) else -1
        except BaseException as error:
            self._error = error
        finally:
            _running.set(None)
        self._arguments = ()
        with self._changes:
            self._completed = True
        for observer in self._observers:
            observer(self.is_success())
        with self._changes:
            self._ended = True
        if self._finished is not None:
            self._finished.release()

    def when_done(self, observer: Callable[[bool], None]) -> None:
        """Call ``observer``, which must not fail, at the end of the call: whether that did well.

        Unlike a callback of the future it has no say in which thread makes the call.
        """
        with self._changes:
            if not self._completed:
                self._observers = (*self._observers, observer)
                return
        observer(self.is_success())

    @property
    def awaited(self) -> bool:
        """Whether the caller holds a future of the call."""
        return self._gate is not None

    def tell(self) -> None:
        """Complete the future of the completed call, and run its callbacks in this thread."""
        if self._gate is None:  # whoever asks for one from here on finds the call completed
            return
        with self._changes:
            gate, self._gate = self._gate, None
        if gate is not None:
            gate.set_result(None)

    def done(self) -> None:
        """Block until the call has ended, failed or not."""
        self._await(-1)

    def _await(self, seconds: float) -> bool:
        """Whether the call has ended within so many seconds, of which -1 are without limit."""
        with self._changes:
            if self._ended:
                return True
            if self._finished is None:
                self._finished = threading.Lock()
                self._finished.acquire()
        if not self._finished.acquire(timeout=seconds):
            return False
        self._finished.release()
        return True

    @left_alone
    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until the call has ended; a ``timeout`` of zero means no limit.

        Raises what the call raised, and LostContactError when the timeout passes first.
        """
        if not self._completed:
            self.blocks = True
            if not timeout:
                self._lane.help(self)
            seconds = timeout.total_seconds() or -1.0
            if not self._await(seconds):
                raise LostContactError(
                    f"{self._lane._name} was not done within the {seconds:g} s given to wait"
                )
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether the call has ended, failed or not."""
        return self._completed

    def is_success(self) -> bool:
        """Whether the call has ended without failing."""
        return self._completed and self._error is None

    def exception(self) -> BaseException | None:
        """The error of the call, if it has ended and failed."""
        return self._error

    def result(self) -> list[Tensor]:
        """The tensors that the call fills, once it has ended."""
        self.wait()
        return list(self._results)

    def source_rank(self) -> int:
        """The rank within the group from which a received message came."""
        return self._source

    _source_rank = source_rank

    def synchronize(self) -> None:
        """Block until the call has ended."""
        self.wait()

    @left_alone
    def get_future(self) -> Future[list[Tensor]]:
        """A future of the tensors that the call fills."""
        with self._changes:
            if self._future is not None:
                return self._future
            gate: Future[None] = Future()
            future = gate.then(self._deliver)
            self._gate, self._future = gate, future
            completed = self._completed
        if completed:
            self.tell()
        return future

    @left_alone
    def _deliver(self, _: Future[None]) -> list[Tensor]:
        if self._error is not None:
            raise self._error
        return list(self._results)


class Done(Work):
    """The Work of a call that ended before it returned."""

    __slots__ = ("_results", "_source")

    def __init__(self, results: Sequence[Tensor], source: int) -> None:
        Work.__init__(self)
        self._results = results
        self._source = source

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:  # noqa: ARG002
        """Return at once."""
        return True

    def is_completed(self) -> bool:
        """Always True."""
        return True

    def is_success(self) -> bool:
        """Always True: the call itself raised any failure."""
        return True

    def exception(self) -> None:
        """Always None: the call itself raised any failure."""
        return

    def result(self) -> list[Tensor]:
        """The tensors that the call filled."""
        return list(self._results)

    def source_rank(self) -> int:
        """The rank within the group from which a message came; -1 of other calls."""
        return self._source

    _source_rank = source_rank

    def synchronize(self) -> None:
        """Return at once."""

    def get_future(self) -> Future[list[Tensor]]:
        """A completed future of the tensors that the call filled."""
        future: Future[list[Tensor]] = Future()
        future.set_result(list(self._results))
        return future


DONE = Done((), -1)
"""The Work of a call that filled no tensor."""
