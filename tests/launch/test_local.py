"""The own spawner, with real processes."""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from children import children
from steptime.errors import SteptimeError, UsageError
from steptime.launch import TORCH, run_ranks
from steptime.record.read import read_logs

WORKER = [str(Path(__file__).with_name("worker.py"))]
HANG_S = 300  # less than the 600 for which some ranks sleep
NO_SECOND_FORK = """
import os
fork, made = os.fork, []
def limited():
    if made:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    made.append(True)
    return fork()
os.fork = limited
"""
LAUNCH = """
import sys
from steptime.launch import run_ranks
sys.exit(run_ranks(sys.argv[2:], 2, 1, imports=[sys.argv[1]]))
"""
HANGS = """
import os, sys, time
from pathlib import Path
Path("{file}.part").write_text(str(os.getpid()))
os.rename("{file}.part", "{file}")
time.sleep(600)
"""


def run(role: str, *words: object, ranks: int = 2, imports: tuple[str, ...] = ()) -> int:
    return run_ranks([*WORKER, role, *map(str, words)], ranks, threads=1, imports=imports)


def test_ranks_get_the_contract_of_torchrun(capfd, monkeypatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert run_ranks([*WORKER, "print_environment"], 3, threads=2, imports=()) == 0
    assert capfd.readouterr() == ("steptime 3 0 3 2 2\n\n", "")


@pytest.mark.slow
def test_ranks_train_and_leave_in_good_order(capfd) -> None:
    assert run("train", imports=TORCH) == 0
    assert capfd.readouterr() == ("steptime rank 0 of 2\n", "")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ranks_leave_in_good_order_every_time(capfd) -> None:
    assert [run("train", imports=TORCH) for _ in range(3)] == [0] * 3
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
        run("die_in_a_collective", ranks=3, imports=TORCH)
    assert capfd.readouterr() == ("", "")


def test_the_error_that_a_rank_reports_is_raised_as_it_was(capfd) -> None:
    start = time.monotonic()
    with pytest.raises(UsageError, match=r"^rank 1 holds \w+ and gives up$"):
        run("raise_with_a_collective_in_flight", imports=TORCH)
    assert time.monotonic() - start < HANG_S
    assert capfd.readouterr() == ("", "")


def test_a_rank_that_hangs_is_ended_after_another_failed() -> None:
    start, others = time.monotonic(), children()
    with pytest.raises(UsageError, match=r"^rank 0 cannot go on$"):
        run("ignore_sigterm_while_rank_0_fails")
    assert time.monotonic() - start < HANG_S
    assert children() <= others


def test_ranks_that_print_much_are_not_held_up(capfd) -> None:
    assert run("print_much") == 0
    assert capfd.readouterr() == ("0" * 1_000_000 + "\n", "")


def test_a_program_that_is_not_there_is_told_by_a_rank(capfd) -> None:
    with pytest.raises(SteptimeError, match=r"^rank [01] ended with exit code 1$"):
        run_ranks(["/nonexistent/program.py"], 2, threads=1, imports=())
    assert "No such file or directory: '/nonexistent/program.py'" in capfd.readouterr().err


def test_no_rank_can_be_started_where_no_file_can_be_opened() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as some:
        resource.setrlimit(resource.RLIMIT_NOFILE, (some.fileno() + 12, hard))
    try:
        with pytest.raises(SteptimeError, match=r"^cannot start ranks: .*Too many open files"):
            run("greet", ranks=8)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_rank_for_which_there_is_no_process_ends_the_others(tmp_path, monkeypatch) -> None:
    (tmp_path / "limited.py").write_text(NO_SECOND_FORK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    others = children()
    with pytest.raises(SteptimeError, match=r"^cannot start rank 1: \[Errno 11\] Resource temp"):
        run("sleep", tmp_path, imports=("limited",))
    assert children() <= others


def test_ranks_are_forks_of_a_process_that_has_imported_what_they_need(capfd) -> None:
    assert run("print_imports", "wave", imports=("wave",), ranks=1) == 0
    assert run("print_imports", "wave", ranks=1) == 0
    assert capfd.readouterr() == ("rank 0 of 1 has wave\nrank 0 of 1 has no wave\n", "")


def test_ranks_draw_numbers_of_their_own(tmp_path) -> None:
    assert run("draw", tmp_path, ranks=3, imports=("random", "numpy.random")) == 0
    drawn = [line for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert len(set(drawn)) == len(drawn) == 6


@pytest.mark.slow
def test_each_rank_is_recorded_as_what_it_runs_and_its_fork_server_is_not(
    tmp_path, monkeypatch, capfd
) -> None:
    monkeypatch.setenv("STEPTIME_RECORD", str(tmp_path))
    assert run("add", imports=TORCH) == 0
    assert capfd.readouterr() == ("steptime rank 0 of 2\n", "")
    logs = read_logs(tmp_path)
    assert [(log.rank, log.command) for log in logs] == [
        (rank, (*WORKER, "add")) for rank in (0, 1)
    ]


def test_the_end_of_the_process_that_is_forked_ends_the_ranks(tmp_path) -> None:
    launcher, pids = start_sleepers(tmp_path)
    os.kill(parent(pids[0]), signal.SIGKILL)
    _, errors = launcher.communicate(timeout=HANG_S)
    assert launcher.returncode == 1
    assert errors.endswith(
        b"SteptimeError: the process of which ranks are forks was killed by SIGKILL: the kernel "
        b"does so when memory runs out\n"
    )
    assert not any(lives(pid) for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_launcher_that_ends_before_there_are_ranks_leaves_nothing(
    number, tmp_path, monkeypatch
) -> None:
    file = tmp_path / "server.pid"
    (tmp_path / "hangs.py").write_text(HANGS.format(file=file))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    launcher = launch("hangs", "greet")
    assert_within(HANG_S, file.exists)
    server = int(file.read_text())
    launcher.send_signal(number)
    launcher.communicate(timeout=HANG_S)
    assert launcher.returncode == (143 if number == signal.SIGTERM else -number)
    assert_within(HANG_S, lambda: not lives(server))


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


def launch(imports: str, *words: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """A launcher of two ranks of the worker, in a process group of its own."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", LAUNCH, imports, *WORKER, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup ignores it
    )


def start_sleepers(folder: Path, *prefix: str) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A launcher, and the process ids of its two ranks."""
    launcher = launch("json", "sleep", str(folder), prefix=prefix)
    files = [folder / f"{rank}.pid" for rank in range(2)]
    assert_within(HANG_S, lambda: all(file.exists() and file.read_text() for file in files))
    return launcher, [int(file.read_text()) for file in files]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def assert_within(seconds: float, condition) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
