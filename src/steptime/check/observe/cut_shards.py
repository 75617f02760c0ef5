"""Cut shards: a rank's part of a sharded tensor that is cut into pieces as if it were the whole."""

from collections.abc import Callable, Sequence
from typing import Any

from steptime.check.observe.backwards import nodes_of, watched_backwards
from steptime.check.observe.contained import Contained
from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world.autograd import cut_shard

CUT = "cut shard"
"""What is noted once of a backward through such pieces: how many elements the whole has, the piece
and the ranks that share it."""

_MOST_BACKWARDS, _MOST_NODES = 4, 5000


class CutShards:
    """The first backwards of this process."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._backwards = 0

    def begin(self, roots: Sequence[Any]) -> None:
        """A backward begins."""
        self._backwards += 1
        if self._backwards > _MOST_BACKWARDS:
            return
        for node in nodes_of(roots, _MOST_NODES):
            spec = cut_shard(node)
            if spec is not None and spec.mesh.size() > 1:
                self._backwards = _MOST_BACKWARDS
                self._log.note(
                    observed=CUT,
                    shape=list(spec.shape),
                    part=[int(size) for size in node._saved_self_sym_sizes],
                    piece=int(node._saved_split_size),
                    at=site(self._log),
                )
                return


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    return watched_backwards(Contained("parts that are cut"), CutShards(log).begin)


OBSERVER = Observer(_observe)
