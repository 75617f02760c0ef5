"""The own spawner, with real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steptime.errors import SteptimeError, UsageError
from steptime.launch import run_ranks

WORKER = [sys.executable, str(Path(__file__).with_name("worker.py"))]
HANG_S = 300  # less than the 600 for which some ranks sleep
LAUNCH = """
import sys
from steptime.launch import run_ranks
sys.exit(run_ranks(sys.argv[2:], int(sys.argv[1]), 1))
"""


def run(role: str, *words: object, ranks: int = 2) -> int:
    return run_ranks([*WORKER, role, *map(str, words)], ranks, threads=1)


def test_ranks_get_the_contract_of_torchrun(capfd, monkeypatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert run_ranks([*WORKER, "print_environment"], 3, threads=2) == 0
    assert capfd.readouterr() == ("steptime 3 0 3 2 2\n\n", "")


@pytest.mark.slow
def test_ranks_train_and_leave_in_good_order(capfd) -> None:
    assert run("train") == 0
    assert capfd.readouterr() == ("steptime rank 0 of 2\n", "")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ranks_leave_in_good_order_every_time(capfd) -> None:
    assert [run("train") for _ in range(3)] == [0] * 3
    assert capfd.readouterr().err == ""


def test_the_exit_code_of_a_rank_is_told_with_its_last_words(capfd, tmp_path) -> None:
    with pytest.raises(SteptimeError, match=r"^rank 1 ended with exit code 3$"):
        run("exit_with_3_on_rank_1", tmp_path, ranks=3)
    assert capfd.readouterr().err == "the trouble of rank 0\nrank 1: the trouble of rank 1\n"


def test_the_traceback_of_a_rank_is_not_lost(capfd) -> None:
    with pytest.raises(SteptimeError, match=r"^rank 1 ended with exit code 1$"):
        run("raise_on_rank_1")
    assert capfd.readouterr().err.endswith("\nrank 1: ValueError: a mistake in the program\n")


def test_a_rank_killed_in_a_collective_is_told_in_one_sentence(capfd) -> None:
    with pytest.raises(
        SteptimeError, match=r"^rank 1 was killed by SIGKILL: the kernel does so wh"
    ):
        run("die_in_a_collective", ranks=3)
    assert capfd.readouterr() == ("", "")


def test_the_error_that_a_rank_reports_is_raised_as_it_was(capfd) -> None:
    start = time.monotonic()
    with pytest.raises(UsageError, match=r"^rank 1 holds \w+ and gives up$"):
        run("raise_with_a_collective_in_flight")
    assert time.monotonic() - start < HANG_S
    assert capfd.readouterr() == ("", "")


def children() -> set[str]:
    """The ids of this process's children, zombies included."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {child for task in tasks for child in task.read_text().split()}


def test_a_rank_that_hangs_is_ended_after_another_failed() -> None:
    start, others = time.monotonic(), children()
    with pytest.raises(UsageError, match=r"^rank 0 cannot go on$"):
        run("ignore_sigterm_while_rank_0_fails")
    assert time.monotonic() - start < HANG_S
    assert children() <= others


def test_ranks_that_print_much_are_not_held_up(capfd) -> None:
    assert run("print_much") == 0
    assert capfd.readouterr() == ("0" * 1_000_000 + "\n", "")


def test_a_command_that_cannot_be_started_is_one_sentence() -> None:
    with pytest.raises(SteptimeError, match=r"^cannot start rank 0: .*No such file or directory"):
        run_ranks(["/nonexistent/program"], 2, threads=1)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_to_the_launcher_ends_all_ranks(number, code, tmp_path) -> None:
    launcher, pids = start_sleepers(tmp_path)
    os.kill(launcher.pid, number)
    _, errors = launcher.communicate(timeout=HANG_S)
    assert (launcher.returncode, errors) == (code, b"")
    assert not any(lives(pid) for pid in pids)


def test_ctrl_c_in_the_terminal_is_left_to_the_launcher(tmp_path) -> None:
    launcher, pids = start_sleepers(tmp_path)
    os.killpg(launcher.pid, signal.SIGINT)
    _, errors = launcher.communicate(timeout=HANG_S)
    assert (launcher.returncode, errors) == (130, b"")
    assert not any(lives(pid) for pid in pids)


def test_a_launcher_started_with_nohup_in_the_background_ends_by_sigterm_alone(tmp_path) -> None:
    launcher, pids = start_sleepers(tmp_path, "sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh")
    for number in (signal.SIGINT, signal.SIGHUP):
        os.kill(launcher.pid, number)
    with pytest.raises(subprocess.TimeoutExpired):
        launcher.wait(0.5)
    assert all(lives(pid) for pid in pids)
    launcher.terminate()
    _, errors = launcher.communicate(timeout=HANG_S)
    assert (launcher.returncode, errors) == (143, b"")
    assert not any(lives(pid) for pid in pids)


def test_ranks_do_not_outlive_a_launcher_killed_by_sigkill(tmp_path) -> None:
    launcher, pids = start_sleepers(tmp_path)
    launcher.kill()
    launcher.communicate(timeout=HANG_S)
    assert_within(HANG_S, lambda: not any(lives(pid) for pid in pids))


def start_sleepers(folder: Path, *prefix: str) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A launcher in a process group of its own, and the process ids of its two ranks."""
    launcher = subprocess.Popen(
        [*prefix, sys.executable, "-c", LAUNCH, "2", *WORKER, "sleep", str(folder)],
        stderr=subprocess.PIPE,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup ignores it
    )
    files = [folder / f"{rank}.pid" for rank in range(2)]
    assert_within(HANG_S, lambda: all(file.exists() and file.read_text() for file in files))
    return launcher, [int(file.read_text()) for file in files]


def assert_within(seconds: float, condition) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
