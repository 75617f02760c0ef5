"""A job as its judges see it: what its ranks wrote down until one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from steptime.check.calls import Calls, calls_of
from steptime.check.differences import Difference, first_difference
from steptime.check.locks import LockWait
from steptime.check.pulse import LostHost
from steptime.check.standing import Standing, standings_of
from steptime.record.read import ProcessLog


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """What is known of a recorded job at one moment, while it runs or after its end.

    ``now_ns``: that moment, by the wall clock. ``exit_codes``: of the ranks whose processes have
    ended, None where it is not known; a signal counts below 0. ``stacks``: Python's stacks of ranks
    that can be asked for them, as text, empty until they answer. ``idle``: the ranks that have used
    no processor since the watch last looked. ``resting``: those that have not for some seconds, nor
    have the processes that they started. ``unmoved``: those that have stood still and sent nothing
    for longer. ``lost``: the hosts that answer no more. ``helpers``:
    processes that ranks forked and that call in their groups. ``lock_waits``: which ranks wait for
    the lock of a file.
    """

    logs: Sequence[ProcessLog]
    now_ns: int
    exit_codes: Mapping[int, int | None] = field(default_factory=dict)
    stacks: Mapping[int, str] = field(default_factory=dict)
    idle: frozenset[int] = frozenset()
    resting: frozenset[int] = frozenset()
    unmoved: frozenset[int] = frozenset()
    lost: Sequence[LostHost] = ()
    helpers: Sequence[ProcessLog] = ()
    lock_waits: Sequence[LockWait] = ()

    @cached_property
    def calls(self) -> Calls:
        """Its calls, and which of them meet."""
        return calls_of(self.logs)

    @cached_property
    def difference(self) -> Difference | None:
        """The first call that its ranks do not make alike."""
        return first_difference(self.calls)

    @cached_property
    def standings(self) -> Mapping[int, Standing]:
        """What each rank does at this moment."""
        return standings_of(
            self.logs, self.calls, self.exit_codes, self.stacks, self.idle, self.now_ns
        )

    def since_s(self, when_ns: int) -> float:
        """The seconds from a moment of the wall clock until now."""
        return max(0.0, (self.now_ns - when_ns) / 1e9)
