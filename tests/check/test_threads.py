"""Two threads of a rank that call in one group: the cause of a mismatch, told as such."""

import json
import sys
from pathlib import Path

import pytest

from forked import forked
from steptime.check.calls import calls_of
from steptime.record.events import Kind
from steptime.record.read import Group

sys.path.insert(0, str(Path(__file__).parents[1] / "record"))
from log_made import Made

TWO_THREADS = """
import threading, torch, torch.distributed as dist
dist.init_process_group("gloo")
mine, first = dist.get_rank(), threading.Event()
def log():
    if mine == 1:
        first.wait()
    dist.all_reduce(torch.ones(1))  # log
    first.set()
thread = threading.Thread(target=log)
thread.start()
if mine == 0:
    first.wait(0.2)
work = dist.all_reduce(torch.ones(100), async_op=True)  # train
first.set()
work.wait()
thread.join()
"""


def test_a_mismatch_of_two_threads_is_told_as_theirs(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TWO_THREADS)
    done = forked("check", "--ranks", "2", "--json", "script.py", folder=tmp_path)
    (finding,) = json.loads(done.out.splitlines()[-1])["findings"]
    assert finding["kind"] == "mismatch"
    assert "them in different threads, so which comes first is chance." in finding["what"]
    assert "a group of its own" in finding["mend"]
    lines = TWO_THREADS.splitlines()
    told = {lines[place["line"] - 1].rpartition("# ")[2] for place in finding["places"]}
    assert told == {"log", "train"}


THREAD_ENDED = """
import threading, torch, torch.distributed as dist
dist.init_process_group("gloo")
others = dist.new_group([0, 1])
def save():
    if dist.get_rank() == 1:
        raise ValueError("no space left")  # raises
    dist.all_reduce(torch.ones(1), group=others)  # saves
thread = threading.Thread(target=save)
thread.start()
thread.join()
dist.barrier()  # trains
"""


def test_what_ended_a_thread_is_told_of_the_circle_that_it_leaves(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(THREAD_ENDED)
    done = forked("check", "--ranks", "2", "--json", "script.py", folder=tmp_path)
    (finding,) = json.loads(done.out.splitlines()[-1])["findings"]
    assert finding["kind"] == "deadlock"
    lines = THREAD_ENDED.splitlines()
    told = {
        (place["rank"], lines[place["line"] - 1].rpartition("# ")[2]) for place in finding["places"]
    }
    assert told == {(0, "saves"), (1, "trains"), (1, "raises")}
    assert "a thread of rank 1 raised ValueError at script.py" in finding["what"]
    assert finding["mend"].startswith("Mend first what ended the thread")


@pytest.mark.parametrize(("backend", "threads"), [("gloo", [1, 2, 1, 3]), ("nccl", [1, 2, 1, 0])])
def test_a_call_of_autograds_thread_is_made_for_who_waits_for_the_backward(
    backend: str, threads: list[int]
) -> None:
    made = Made(0, 2, [Group("default_pg", backend, (0, 1))])
    made.part(Kind.BACKWARD, 20, 30)
    made.call("allreduce_", 4, issued=10, ended=11, thread=0)
    made.call("allreduce_", 4, issued=15, ended=16, thread=1)
    made.call("allreduce_", 4, issued=25, ended=26, thread=4)  # for thread 0, which is in backward
    made.call("allreduce_", 4, issued=40, ended=41, thread=2)  # perhaps in a backward to come
    found = calls_of([made.log()]).of_rank[0]
    assert [call.thread for call in found] == threads
