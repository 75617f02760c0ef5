"""Lanes: a group's calls run in order, off the caller's thread where it does not wait."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar

from torch import Tensor

from steptime.backend.work import Task
from steptime.errors import SteptimeError
from steptime.world.environment import LostContactError

T = TypeVar("T")

_LOOK_S = 200e-6
_SELDOM_S = 1.6e-3  # between looks that find callers waiting for all that they called
_VAIN_S = 10e-3  # without calls, before the thread that looks is put to sleep
_REST_S = 20e-3  # between looks at calls that end without anybody's help
_AT_ONCE_S = 50e-6  # from a call to the wait for it, where nothing comes between the two
_IDLE_S = 2.0
_GRACE_S = 1.0


class _This:
    """The number of this process, which asking the system takes as long as a small call's rest."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """Ask the system."""
        self.process = os.getpid()


_this = _This()


class Crew:
    """The threads that run the calls of lanes whose callers do not soon wait for them.

    Waking a thread takes the caller longer than a small call. So while calls keep coming one thread
    polls the lanes every ``look_s`` seconds or so, and starts threads for calls left waiting.
    """

    def __init__(self, look_s: float = _LOOK_S) -> None:
        self._look_s = look_s
        self._lanes: deque[Lane] = deque()
        self._wake = threading.Condition()
        self._looking = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.latest = 0
        """The identity of the call that was queued last, unless a message was sent since."""
        self.latest_s = 0.0
        """When that was, by time.perf_counter."""

    def look_after(self, lane: "Lane") -> None:
        """Register a lane that has been given a call, for the next poll."""
        self._lanes.append(lane)
        if self._looking:
            return
        with self._wake:
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="crew", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self, lanes: Iterable["Lane"]) -> None:
        """Wait for the end of the polling thread and, no longer than the grace, of these lanes."""
        with self._wake:
            self._closed = True
            self._wake.notify()
            thread = self._thread
        if thread not in (None, threading.current_thread()):
            thread.join()
        until = time.monotonic() + _GRACE_S
        for lane in lanes:
            lane.close(until)

    def _look(self) -> None:
        patience_s = _VAIN_S
        while True:
            self._looking = True
            resting = self._poll(patience_s)
            with self._wake:
                # Whoever adds a lane from here on sees that it must wake this thread.
                self._looking = False
                called = True
                if len(self._lanes) == resting and not self._closed:
                    called = self._wake.wait(_REST_S if resting else _IDLE_S)
                if not self._lanes:
                    self._thread = None
                    return
            patience_s = _VAIN_S if called else 0.0

    def _poll(self, patience_s: float) -> int:
        """Look after the lanes until that was in vain for so long; returns how many rest."""
        vain_s, pause_s = 0.0, self._look_s
        while True:
            time.sleep(pause_s)
            found, resting, summoned = len(self._lanes), 0, False
            for _ in range(found):
                lane = self._lanes.popleft()
                if lane.rests() and not self._closed:  # closed, it has nobody to end it any more
                    resting += 1
                    self._lanes.append(lane)
                elif lane.may_soon_be_waited_for():
                    self._lanes.append(lane)
                else:
                    summoned |= lane.summon()
            if found > resting:
                vain_s, pause_s = 0.0, self._look_s if summoned else min(2 * pause_s, _SELDOM_S)
            else:
                vain_s += pause_s
                if self._closed or vain_s >= patience_s:
                    return resting


class Lane:
    """A queue of blocking calls, carried out one at a time in the order in which they were given.

    A call that the caller waits for runs in the caller's own thread; one that it does not wait for
    runs in a thread of the lane, which the crew starts and which ends with the calls. Once a call
    has failed, every later one fails with the same error: the state of the other ranks is then
    unknown.

    Callbacks of a call's future may make further calls and wait for them. So a thread of the lane
    that runs callbacks does not count as one that will run the next call.
    """

    def __init__(self, name: str, crew: Crew, *, hurried: bool = True) -> None:
        self._name = name
        self._hurried = hurried
        self._seen: Task | None = None
        self._pid = os.getpid()
        self.crew = crew
        self.is_awaited_at_once = False
        """Whether the last call that was waited for was so before anything else was done."""
        # Calls may come past all this where these three say that none comes first (kernel/turn.h).
        self.turn = threading.Lock()
        self.tasks: deque[Task] = deque()
        self.failure: BaseException | None = None
        self._count = threading.Lock()
        self._attending = 0
        self._threads: set[threading.Thread] = set()

    def run(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call ``function`` now, after all calls given before; raises what it raises."""
        self._check_process()
        with self.turn:
            if not self.tasks:
                self.call(function, arguments)
                return
        self.start((), function, *arguments).wait()

    def attempt(self, function: Callable[..., T], *arguments: Any) -> T | Literal[0]:
        """Call ``function`` now and return its answer; 0 where others come first or failed."""
        self._check_process()
        if self.tasks or self.failure or not self.turn.acquire(False):
            return 0
        try:
            return 0 if self.tasks else self.call(function, arguments)
        finally:
            self.turn.release()

    def is_clear(self) -> bool:
        """Whether no call is queued or in progress, and none has failed."""
        self._check_process()
        return not (self.tasks or self.failure or self.turn.locked())

    def start(
        self,
        results: Sequence[Tensor],
        function: Callable[..., Any],
        *arguments: Any,
        rests: Callable[[], bool] | None = None,
    ) -> Task:
        """Queue a call of ``function``; ``results`` are the tensors that it fills.

        While it ``rests`` it needs nobody to come to its end.
        """
        self._check_process()
        if self.failure is not None:
            raise self.failure
        task = Task(self, results, function, arguments, rests)
        with self._count:
            self.tasks.append(task)
            attended = self._attending > 0
        self.crew.latest, self.crew.latest_s = id(task), time.perf_counter()
        if not attended:
            self.crew.look_after(self)
        return task

    def help(self, task: Task) -> None:
        """Run the calls before ``task``, and the task, unless another thread does."""
        crew = self.crew
        self.is_awaited_at_once = (
            crew.latest == id(task) and time.perf_counter() - crew.latest_s < _AT_ONCE_S
        )
        helped: list[Task] = []
        if self.turn.acquire(blocking=False):
            try:
                while not task.is_completed() and self.tasks and not self.tasks[0].awaited:
                    helped.append(self.tasks.popleft())
                    helped[-1].carry_out()
            finally:
                self.turn.release()
        for other in helped:
            other.tell()

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call ``function`` for the thread that has the turn, and keep its failure."""
        if self.failure is not None:
            raise self.failure
        try:
            return function(*arguments)
        except BaseException as error:
            self.keep(error)
            raise

    def keep(self, error: BaseException) -> None:
        """Let every later call fail as one has failed."""
        if not isinstance(error, Exception):
            error = LostContactError(f"this rank was interrupted in {self._name}")
        self.failure = error

    def finish(self) -> None:
        """Wait until all calls given so far have ended, failed ones too."""
        with self.turn:
            last = self.tasks[-1] if self.tasks else None
        if last is not None:
            last.done()

    def close(self, until: float) -> None:
        """Wait until the remaining calls have run and the lane's threads have ended.

        A thread that returns from C++ while the interpreter finalises would abort the process. But
        not every call ends soon, so this wait ends at ``until``, a time of the monotonic clock.
        """
        self.summon()
        with self._count:
            threads = self._threads - {threading.current_thread()}
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def rests(self) -> bool:
        """Whether the next call comes to its end without anybody's help."""
        try:
            rests = self.tasks[0].rests
        except IndexError:
            return False
        return rests is not None and rests()

    def may_soon_be_waited_for(self) -> bool:
        """Whether the next call, of a lane that is not hurried, was not there at the last look.

        Starting a thread takes longer than most messages, whose callers soon wait for them.
        """
        if self._hurried:
            return False
        seen, self._seen = self._seen, self.tasks[0] if self.tasks else None
        return self._seen is not None and self._seen is not seen

    def summon(self) -> bool:
        """Start a thread for the remaining calls, unless one attends to them; whether it did."""
        with self._count:
            if not self.tasks or self._attending:
                return False
            self._attending += 1
            thread = threading.Thread(target=self._attend, name=self._name, daemon=True)
            self._threads.add(thread)
            thread.start()
        return True

    @property
    def at_rest(self) -> bool:
        """Whether no call is in progress and no thread is left."""
        return not (self.tasks or self._threads or self.turn.locked())

    def _check_process(self) -> None:
        """Refuse calls in a forked process, whose copies of the locks may never be released."""
        if _this.process != self._pid:
            raise SteptimeError(
                f"process {os.getpid()} was forked from a rank (pid {self._pid}) and is no member "
                "of its groups: communicate in the rank itself"
            )

    def _attend(self) -> None:
        while True:
            with self.turn:
                task = self.tasks.popleft() if self.tasks else None
                if task is not None:
                    task.carry_out()
            if task is not None and task.awaited:
                with self._count:
                    self._attending -= 1
                self.summon()
                task.tell()
                with self._count:
                    self._attending += 1
            with self._count:
                if not self.tasks:
                    self._attending -= 1
                    self._threads.discard(threading.current_thread())
                    return
