"""Stacks of a process that runs: it is asked at any moment, and is none the worse for it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steptime.check.finding import CallSite
from steptime.check.processes import Process
from steptime.check.stacks import (
    STACKS,
    handled_by,
    has_other_threads,
    main_frames,
    script_place,
    waits_for_typing,
)
from steptime.record.events import EVENTS
from steptime.record.start import FOLDER, OBSERVERS_VARIABLE, recording_environment

_QUESTIONS = 500
_HANGS_AFTER_S = 300.0

_CALLS_WITHOUT_PAUSE = """
import torch

def key(number):
    return -number

def work():
    while True:
        sorted(range(50), key=key)  # here

print("runs", flush=True)
work()
"""

_COMPUTES_DURING_A_CALL = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
handle = dist.all_reduce(torch.ones(4), async_op=True)
table = torch.ones(500, 500)
print("runs", flush=True)
while True:
    try:
        raise ValueError("of no use")
    except ValueError:
        table @ table  # here
"""

_HOLDS_A_TENSOR = """
import weakref, torch

def step():
    held = torch.ones(8)
    print("runs", flush=True)
    input()
    return weakref.ref(held)

print("let go" if step()() is None else "kept", flush=True)
"""

_TAKES_THE_NUMBER = """
import os, torch
print("runs", flush=True)
os.dup2(os.open("mine", os.O_CREAT | os.O_RDWR), int(input()))
print("taken", flush=True)
input()
"""


@contextmanager
def _asked(script: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], Process]]:
    """A script that has said that it runs, and the process that it is to the watch."""
    (folder / "script.py").write_text(script)
    environ = recording_environment(os.environ, folder)
    with subprocess.Popen(
        [sys.executable, folder / "script.py"],
        cwd=folder,
        env=environ | {OBSERVERS_VARIABLE: "steptime.check.observe"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout and process.stdout.readline() == "runs\n"
            (stacks,) = (folder / FOLDER).glob(f"*{STACKS}")
            yield process, Process(stacks.with_suffix(EVENTS), process.pid, here=True)
        finally:
            process.kill()


def _answered(asked: Process, process: subprocess.Popen[str]) -> str:
    """The answer to a new question; empty where the process dies of it."""
    until = time.monotonic() + _HANGS_AFTER_S
    asked.asked_at = -1
    asked.ask(time.monotonic())
    while not asked.answer() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.0002)
    return asked.answer()


@pytest.mark.slow
def test_a_process_that_calls_functions_without_pause_lives_through_all_questions(
    tmp_path: Path,
) -> None:
    with _asked(_CALLS_WITHOUT_PAUSE, tmp_path) as (process, asked):
        for _ in range(_QUESTIONS):
            answer = _answered(asked, process)
        assert process.poll() is None
        frames = main_frames(answer)
        assert [frame.function for frame in frames][-2:] == ["work", "<module>"]
        assert frames[-1].line == len(_CALLS_WITHOUT_PAUSE.splitlines())


def test_an_operator_that_is_watched_is_told_as_the_scripts_own_line(tmp_path: Path) -> None:
    with _asked(_COMPUTES_DURING_A_CALL, tmp_path) as (process, asked):
        watched = []
        for _ in range(_QUESTIONS):  # where the process is when it is asked is chance
            answer = _answered(asked, process)
            watched += [answer] if any(f.of_recorder for f in main_frames(answer)) else []
            if len(watched) == 3:
                break
    lines = _COMPUTES_DURING_A_CALL.splitlines()
    assert watched
    for answer in watched:
        place, handled = script_place(answer, 3), handled_by(answer, 3)
        assert place == CallSite(3, str(tmp_path / "script.py"), len(lines))
        assert handled
        assert (handled.kind, handled.message) == ("ValueError", "of no use")
        assert handled.place == CallSite(3, str(tmp_path / "script.py"), len(lines) - 2)


@pytest.mark.slow
def test_a_question_keeps_nothing_of_the_script_alive(tmp_path: Path) -> None:
    with _asked(_HOLDS_A_TENSOR, tmp_path) as (process, asked):
        assert [one.function for one in main_frames(_answered(asked, process))] == [
            "step",
            "<module>",
        ]
        assert process.communicate("\n", timeout=_HANGS_AFTER_S)[0] == "let go\n"


@pytest.mark.slow
def test_a_file_that_took_the_number_of_the_pipe_is_not_written_to(tmp_path: Path) -> None:
    with _asked(_TAKES_THE_NUMBER, tmp_path) as (process, asked):
        assert process.stdin and process.stdout
        number = asked.file.with_suffix(STACKS).read_text().split()[0]
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "taken\n"
        now = time.monotonic()
        asked.ask(now)
        assert (tmp_path / "mine").read_bytes() == b""
        assert asked.may_answer
        asked.ask(now + 60)  # so long it was silent: the signal asks
        # Thread by thread, the main one last: the answer may be read while it is written.
        while "<module>" not in asked.answer() and time.monotonic() < now + _HANGS_AFTER_S:
            time.sleep(0.01)
        assert main_frames(asked.answer())[-1].function == "<module>"


def test_threads_of_packages_and_of_our_backend_are_none_of_the_script() -> None:
    def thread(number: int, *files: str) -> str:
        frames = "".join(f'  File "{file}", line 1 in run\n' for file in files)
        return f"Thread 0x{number:016x} (most recent call first):\n{frames}"

    main = thread(1, "/job/train.py")
    bar = thread(2, "/venv/lib/python3/site-packages/tqdm/_monitor.py")
    ours = thread(3, "/src/steptime/backend/engine.py")
    assert not has_other_threads(main + bar + ours)
    assert has_other_threads(main + bar + thread(4, "/src/steptime/backend/work.py", "/job/io.py"))


def test_who_waits_for_somebody_to_type_is_known(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("answer = input('go on? ')\nwork(answer)\n")

    def stack(*lines: tuple[str, int, str]) -> str:
        frames = (f'  File "{file}", line {line} in {name}' for file, line, name in lines)
        return "\n".join(["Thread 0x1 [python] (most recent call first):", *frames])

    module = (str(script), 1, "<module>")
    assert waits_for_typing(stack(module))
    assert waits_for_typing(stack(("/usr/lib/python3.11/pdb.py", 9, "interaction"), module))
    assert not waits_for_typing(stack((str(script), 2, "<module>")))
    assert not waits_for_typing("")
