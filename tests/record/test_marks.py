"""Where calls and waits are marked on a GPU: by any other marks, since this needs none of it."""

import json
from pathlib import Path

import pytest

from forked import forked_python
from steptime.record.events import Time

pytestmark = pytest.mark.parametrize(
    "kernel", ["c", pytest.param("python", marks=pytest.mark.slow)]
)

SCRIPT = """
import json, sys
from pathlib import Path

import torch
import torch.distributed as dist

from steptime.record import c10d
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.world import compat

class Marks:
    def __init__(self):
        self.taken, self.kept = 0, []
    def take(self):
        self.taken += 1
        return self.taken
    def keep(self, number, time_of, mark):
        if mark is not None:
            self.kept.append((number, time_of, mark))

backend, calls_made, folder = sys.argv[1:]
log = Log(Path(folder))
calls = Calls(log)
works, unbox = [], compat.Work.unbox
compat.Work.unbox = lambda boxed: None if works == ["none"] else unbox(boxed)
end = c10d.install(calls)
if backend == "steptime":
    import steptime.backend
dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
one, group = torch.ones(1), dist.group.WORLD.group_name
dist.all_reduce(one)  # of this nothing is marked: there is no GPU yet
calls.marks = marks = Marks()
exec(calls_made)
calls.marks = None
dist.all_reduce(one)
end()
calls.close()
dist.destroy_process_group()
print(json.dumps(marks.kept))
"""

OF_EACH_KIND = """
dist.all_reduce(one)
dist.all_reduce(one, async_op=True).wait()
functional = torch.ops._c10d_functional
functional.wait_tensor(functional.all_reduce(one, "sum", group))
"""
# As a synchronous call of NCCL has none.
WITHOUT_WORK = """
later = dist.all_gather_into_tensor(torch.ones(1), one, async_op=True)
works.append("none")
options = dist.AllreduceOptions()
options.asyncOp = False
dist.group.WORLD.allreduce([one], options)
works.clear()
later.wait()
"""


def _marked(kernel: str, backend: str, calls: str, folder: Path) -> list[tuple[int, int]]:
    """Times of events, by their numbers; on gloo the second call has number 1."""
    words = ("-c", SCRIPT, backend, calls, str(folder))
    done = forked_python(*words, folder=folder, environ={"STEPTIME_KERNEL": kernel})
    assert done.code == 0, done.err
    kept = json.loads(done.out)
    assert [mark for *_, mark in kept] == list(range(1, 1 + len(kept)))
    return [(number, time_of) for number, time_of, _ in kept]


def test_a_mark_is_where_a_call_or_wait_begins_and_where_the_stream_goes_on(
    kernel: str, tmp_path: Path
) -> None:
    assert _marked(kernel, "gloo", OF_EACH_KIND, tmp_path) == [
        (1, Time.ISSUED),
        (1, Time.WAIT_BEGIN),
        (1, Time.WAIT_END),
        (2, Time.ISSUED),
        (2, Time.WAIT_BEGIN),
        (2, Time.WAIT_END),
        (3, Time.ISSUED),
        (4, Time.ISSUED),  # a wait for the tensor of 3
        (4, Time.ENDED),
    ]


def test_a_call_without_work_ends_as_it_returns_and_takes_no_other_wait_for_its_own(
    kernel: str, tmp_path: Path
) -> None:
    assert _marked(kernel, "gloo", WITHOUT_WORK, tmp_path) == [
        (1, Time.ISSUED),
        (2, Time.ISSUED),
        (2, Time.RETURNED),
        (1, Time.WAIT_BEGIN),
        (1, Time.WAIT_END),
    ]


def test_the_calls_of_a_group_that_is_a_python_class_are_marked(
    kernel: str, tmp_path: Path
) -> None:
    # Whether its second call is done by the time it returns is by chance.
    assert _marked(kernel, "steptime", OF_EACH_KIND, tmp_path)[:3] == [
        (1, Time.ISSUED),
        (
            1,
            Time.RETURNED,
        ),  # by then it is done, and who waits for it all the same waits for no call
        (2, Time.ISSUED),
    ]
