"""``steptime.run`` on real ranks: results, exceptions, deaths, hangs, and what is left of them."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import steptime as st
from children import children
from steptime.errors import SteptimeError, UsageError

LOCK = threading.Lock()


def rank() -> int:
    return int(os.environ["RANK"])


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """No process, thread or open file outlives a call; what other tests have left may end in it."""
    before, threads, files = children(), threading.active_count(), _open_files()
    yield
    assert children() <= before
    assert threading.active_count() <= threads
    assert _open_files() <= files


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_closure_gives_its_results_in_the_order_of_ranks() -> None:
    factor = 5
    results = st.run(lambda: np.arange(2) + factor * rank(), ranks=3, backend="none")
    assert [result.tolist() for result in results] == [[0, 1], [5, 6], [10, 11]]


def test_ranks_have_joined_and_return_tensors() -> None:
    import torch
    import torch.distributed as dist

    def summed() -> torch.Tensor:
        own = torch.full((2,), dist.get_rank() + 1.0)
        dist.all_reduce(own)
        return own

    results = st.run(summed, ranks=2)
    assert [result.tolist() for result in results] == [[3.0, 3.0]] * 2


def test_what_ranks_print_is_told_by_rank(capsys) -> None:
    def chatter() -> None:
        print("one\ntwo", end="")
        os.system("echo three")  # noqa: S605

    st.run(chatter, ranks=2, backend="none")
    lines = capsys.readouterr().out.splitlines()
    for number in (0, 1):
        assert [line for line in lines if f"rank {number}: " in line] == [
            f"rank {number}: one",
            f"rank {number}: twothree",
        ]


def test_an_exception_is_raised_with_its_rank_and_its_lines() -> None:
    def fails() -> None:
        if rank() == 1:
            raise KeyError("no such layer")
        time.sleep(600)

    with pytest.raises(KeyError, match="no such layer") as caught:
        st.run(fails, ranks=3, backend="none")
    (note,) = caught.value.__notes__
    assert note.startswith("raised on rank 1 of 3:\nTraceback")
    assert 'raise KeyError("no such layer")' in note
    assert "steptime/api" not in note


def test_an_exception_that_cannot_travel_is_told() -> None:
    class HasLockError(Exception):
        def __init__(self) -> None:
            self.lock = threading.Lock()
            super().__init__("it is locked")

    def fails() -> None:
        raise HasLockError

    with pytest.raises(
        SteptimeError, match=r"rank 0 raised .*HasLockError: it is locked"
    ) as caught:
        st.run(fails, ranks=1, backend="none")
    assert "raise HasLockError" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
        (lambda: os._exit(3), "ended with exit code 3"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (lambda: os._exit(0), "ended with exit code 0 before it had returned"),
                (lambda: sys.exit(3), r"called sys.exit\(3\)"),
            )
        ),
    ],
)
def test_a_rank_that_dies_ends_the_others(end, said: str) -> None:
    def dies() -> None:
        if rank() == 1:
            end()
        time.sleep(600)

    with pytest.raises(SteptimeError, match=rf"^rank 1 {said}"):
        st.run(dies, ranks=2, backend="none")


def test_a_rank_that_dies_in_a_collective_is_the_cause() -> None:
    import torch.distributed as dist

    def dies() -> None:
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()

    with pytest.raises(SteptimeError, match=r"^rank 1 was killed by SIGKILL"):
        st.run(dies, ranks=2)


@pytest.mark.slow
def test_ranks_that_wait_for_one_that_skipped_the_collective_are_named() -> None:
    import torch.distributed as dist

    def skips() -> None:
        if dist.get_rank() > 0:
            dist.barrier()

    said = "^after 5 s ranks 1 and 2 had not returned, and rank 0 had: a collective waits until ev"
    with pytest.raises(SteptimeError, match=said) as caught:
        st.run(skips, ranks=3, timeout="5s")
    assert len(caught.value.__notes__) == 2
    assert "in skips" in caught.value.__notes__[0]


def test_ranks_that_hang_are_told_where() -> None:
    with pytest.raises(SteptimeError, match=r"^after 2 s ranks 0 and 1 had not ret") as caught:
        st.run(lambda: time.sleep(600), ranks=2, backend="none", timeout=2)
    assert "test_running.py" in caught.value.__notes__[1]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: (letter for letter in "ab"), "^rank 0 returned what no other process can have"),
        (partial(print, LOCK), "^the function uses what no other process can have"),
        (lambda x: x, "without arguments"),
        (5, "^5 is no function"),
    ],
)
def test_what_cannot_travel_is_said_in_one_sentence(function, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        st.run(function, ranks=1, backend="none")


@pytest.mark.parametrize(
    "options", [{"ranks": 0}, {"threads": 0}, {"backend": "mpi"}, {"timeout": 0}]
)
def test_what_cannot_be_run_is_refused(options) -> None:
    with pytest.raises(UsageError, match=f"^.*{next(iter(options))}"):
        st.run(rank, **options)


SCRIPT = """
import os, signal, threading, time
import steptime as st

class Found:
    def __init__(self, rank): self.rank = rank

def found():
    return Found(int(os.environ["RANK"]))

first, second = st.run(found, ranks=2, backend="none")
assert isinstance(second, Found) and second.rank == 1  # of the script's own class
print(st.run(os.getpid, ranks=1, backend="none")[0] != os.getpid())
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt():
    while not os.path.exists("ready"):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    st.run(lambda: (open("ready", "w").close(), time.sleep(600)), ranks=2, backend="none")
except KeyboardInterrupt:
    print("stopped", open(f"/proc/self/task/{os.getpid()}/children").read() == "")
"""


def test_a_script_needs_no_guard_and_an_interrupt_stops_its_ranks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert (done.stdout, done.stderr) == ("True\nstopped True\n", "")


def test_ranks_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    waiting = tmp_path / "waiting"
    code = f"""
import steptime as st, os, time
def wait():
    open({str(waiting)!r} + os.environ["RANK"], "w").write(str(os.getpid()))
    time.sleep(600)
st.run(wait, ranks=2, backend="none")
"""
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        files = [Path(f"{waiting}{rank}") for rank in (0, 1)]
        _until(lambda: all(file.exists() and file.read_text() for file in files))
        process.kill()
    _until(lambda: not any(Path(f"/proc/{file.read_text()}").exists() for file in files))


def _until(true) -> None:
    end = time.monotonic() + 600
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
