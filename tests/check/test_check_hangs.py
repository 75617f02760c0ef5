"""``check`` on real ranks that hang, differ, die or are late: what, who, which lines, and when."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import steptime as st
from cli.command import Ended
from forked import forked
from steptime.check.standing import lost_contact
from steptime.record.read import Raised
from steptime.report.findings import print_findings

sys.path.insert(0, str(Path(__file__).parent))
import broken_scripts as scripts

_HANGS_AFTER_S = 540.0


def _check(
    folder: Path, script: str, *arguments: str, options: tuple[str, ...] = ("--ranks", "2")
) -> tuple[Ended, dict[str, Any]]:
    """``steptime check`` of a script, and its last line of stdout."""
    file = folder / "script.py"
    file.write_text(script)
    words = ["check", "--json", *options, "--out", str(folder / "run"), str(file), *arguments]
    done = forked(*words, folder=folder)
    answer = json.loads(done.out.splitlines()[-1])
    assert json.loads((folder / "run" / "run.json").read_text())["findings"] == answer["findings"]
    return done, answer


def _started(folder: Path, script: str, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
    """``steptime check`` of a script on two ranks, under way."""
    (folder / "script.py").write_text(script)
    words = ["check", "--json", "--ranks", "2", "--out", "run", "script.py", *arguments]
    command = [sys.executable, "-m", "steptime", *words]
    return subprocess.Popen(command, cwd=folder, text=True, **options)


def _lines(script: str, mark: str) -> set[int]:
    return {n for n, line in enumerate(script.splitlines(), 1) if line.endswith(f"# {mark}")}


def _one(answer: dict[str, Any]) -> dict[str, Any]:
    """The one finding; a busy machine may keep any rank from running, which is told beside it."""
    (finding,) = (one for one in answer["findings"] if one["kind"] != "straggler")
    assert finding["what"].endswith(".")
    assert finding["mend"]
    return dict(finding)


def _at(finding: dict[str, Any], rank: int) -> set[int]:
    return {place["line"] for place in finding["places"] if place["rank"] == rank}


def test_a_sound_script_keeps_its_output_and_nothing_is_found(tmp_path: Path) -> None:
    done, answer = _check(tmp_path, scripts.SOUND, "--json", "x")
    assert done.code == 0, done.err
    assert (answer["ok"], answer["findings"], answer["exit_code"]) == (True, [], 0)
    assert done.err.count("sound ['--json', 'x']") == 2


def test_ranks_that_both_send_first_stand_in_a_circle(tmp_path: Path) -> None:
    begun = time.monotonic()
    done, answer = _check(tmp_path, scripts.BOTH_SEND)
    took_s = time.monotonic() - begun
    finding = _one(answer)
    assert (done.code, answer["ok"], answer["ended_by_check"]) == (1, False, True)
    assert (finding["kind"], finding["ranks"]) == ("deadlock", [0, 1])
    assert "send first" in finding["what"]
    for rank in (0, 1):
        assert _at(finding, rank) == _lines(scripts.BOTH_SEND, "here")
    assert 0 < finding["since_s"] < took_s


@pytest.mark.slow
def test_a_call_that_all_have_made_and_in_which_nothing_is_sent_is_told(tmp_path: Path) -> None:
    _, answer = _check(tmp_path, scripts.LETS_GO)
    deadlock = next(one for one in answer["findings"] if one["kind"] == "deadlock")
    assert "rank of these calls has made them, the last 1" in deadlock["what"]
    told = {place["line"] for place in deadlock["places"]}
    assert told
    assert told <= _lines(scripts.LETS_GO, "here")
    assert any("its handle is let go" in one["what"] for one in answer["findings"])


@pytest.mark.slow
def test_ranks_that_both_receive_first_stand_in_a_circle(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.BOTH_RECEIVE)[1])
    assert (finding["kind"], finding["ranks"]) == ("deadlock", [0, 1])
    assert "receive first" in finding["what"]


@pytest.mark.slow
@pytest.mark.parametrize("script", [scripts.BOTH_POLL, scripts.FUTURES_POLLED])
def test_ranks_that_poll_in_place_of_waiting_stand_in_a_circle(script: str, tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, script)[1])
    assert (finding["kind"], finding["ranks"]) == ("deadlock", [0, 1])
    assert "which it polls at script.py" in finding["what"]
    for rank in (0, 1):
        assert _at(finding, rank) == _lines(script, "here")


@pytest.mark.slow
def test_a_message_that_is_polled_is_never_done_on_gloo(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.POLLED, options=("--ranks", "3"))[1])
    assert (finding["kind"], finding["ranks"]) == ("deadlock", [0])
    assert "on gloo no message says that it is done" in finding["what"]
    assert _at(finding, 0) == _lines(scripts.POLLED, "here")
    assert _at(finding, 2) == _lines(scripts.POLLED, "there")


@pytest.mark.slow
def test_who_computes_between_its_questions_is_not_stuck(tmp_path: Path) -> None:
    done, answer = _check(tmp_path, scripts.POLLED_WHILE_IT_COMPUTES)
    assert (done.code, answer["exit_code"], answer["ended_by_check"]) == (0, 0, False)


@pytest.mark.slow
def test_who_polls_for_several_goes_on_when_any_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKEND", "steptime")
    done, answer = _check(tmp_path, scripts.POLLED, options=("--ranks", "3"))
    assert (done.code, answer["exit_code"], answer["ended_by_check"]) == (0, 0, False)


@pytest.mark.slow
def test_groups_used_in_different_orders_stand_in_a_circle(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.CROSSED)[1])
    assert (finding["kind"], finding["ranks"]) == ("deadlock", [0, 1])
    assert "different orders" in finding["what"]
    assert _at(finding, 0) == _lines(scripts.CROSSED, "here")
    assert _at(finding, 1) == _lines(scripts.CROSSED, "there")


def test_a_call_that_one_rank_alone_makes_differs(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.BRANCH)[1])
    assert (finding["kind"], finding["ranks"]) == ("mismatch", [0, 1])
    assert _at(finding, 0) == _lines(scripts.BRANCH, "here")
    assert _at(finding, 1) == _lines(scripts.BRANCH, "there")


@pytest.mark.slow
def test_an_exception_that_is_handled_meanwhile_is_told(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.FINALLY)[1])
    assert (finding["kind"], finding["ranks"]) == ("mismatch", [0, 1])
    (line,) = _lines(scripts.FINALLY, "there")
    told = f"rank 1 is handling ValueError at script.py:{line}: a bad batch."
    assert finding["what"].endswith(told)
    assert _at(finding, 1) == {line, *_lines(scripts.FINALLY, "here")}


@pytest.mark.slow
def test_shapes_that_differ_are_told_also_where_the_backend_fails(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.SHAPES)[1])
    assert finding["kind"] == "mismatch"
    assert "differs in its size" in finding["what"]
    assert _at(finding, 0) == _at(finding, 1) == _lines(scripts.SHAPES, "here")


def test_a_rank_with_fewer_calls_is_missing(tmp_path: Path) -> None:
    done, answer = _check(tmp_path, scripts.UNEVEN)
    finding = _one(answer)
    assert done.code == 1
    assert (finding["kind"], finding["ranks"]) == ("missing", [0])
    assert _at(finding, 1) == _lines(scripts.UNEVEN, "here")


@pytest.mark.slow
def test_a_rank_whose_backward_waits_in_the_reducer_is_seen_to_wait(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.LOST_BACKWARD)[1])
    assert (finding["kind"], finding["ranks"]) == ("missing", [0])
    assert _lines(scripts.LOST_BACKWARD, "here") <= _at(finding, 1)


@pytest.mark.slow
def test_a_group_that_not_all_its_ranks_make_is_told(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.GROUPS)[1])
    assert finding["kind"] == "deadlock"
    assert "new_group" in finding["what"]
    assert _at(finding, 0) == _lines(scripts.GROUPS, "here")
    assert _at(finding, 1) == _lines(scripts.GROUPS, "there")


@pytest.mark.slow
@pytest.mark.parametrize("script", [scripts.RAISES, scripts.KILLED])
def test_the_rank_that_died_is_named_and_not_those_that_lost_it(
    tmp_path: Path, script: str
) -> None:
    done, answer = _check(tmp_path, script)
    finding = _one(answer)
    assert done.code == 1
    assert (finding["kind"], finding["ranks"]) == ("died", [1])
    assert _lines(script, "there") <= _at(finding, 1)
    assert _at(finding, 0) == _lines(script, "here")
    assert "ValueError" in finding["what"] or "SIGKILL" in finding["what"]


@pytest.mark.slow
def test_a_rank_that_is_killed_while_it_waits_died_of_that(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.KILLED_WAITING)[1])
    assert (finding["kind"], finding["ranks"]) == ("died", [1])
    assert "killed by SIGKILL" in finding["what"]
    assert _at(finding, 1) == _lines(scripts.KILLED_WAITING, "here")


def test_a_rank_that_raises_before_its_first_call_is_told_with_that(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.RAISES_FIRST)[1])
    assert (finding["kind"], finding["ranks"]) == ("died", [1])
    assert "raised ValueError" in finding["what"]
    assert _at(finding, 1) >= _lines(scripts.RAISES_FIRST, "there")


@pytest.mark.slow
def test_a_call_that_the_library_does_not_take_is_the_fault_of_its_rank(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.REFUSED)[1])
    assert (finding["kind"], finding["ranks"]) == ("died", [0])
    assert "Incorrect input list size" in finding["what"]
    assert _at(finding, 0) == _lines(scripts.REFUSED, "here")


@pytest.mark.slow
def test_models_of_different_numbers_of_parameters_differ(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.OTHER_COUNTS)[1])
    assert (finding["kind"], finding["ranks"]) == ("mismatch", [0, 1])
    assert "has 1.weight of 8 × 8" in finding["what"]
    assert "no more than 2 parameters" in finding["what"]
    for rank in range(2):
        assert _at(finding, rank) == _lines(scripts.OTHER_COUNTS, "here")


@pytest.mark.parametrize(
    ("said", "lost"),
    [
        ("[…/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4327", True),
        ("ProcessGroupGloo::scatter: Incorrect input list size 2", False),
        ("NCCL error: remote process exited or there was a network error\nncclRemoteError", True),
        ("NCCL error: invalid usage\nncclInvalidUsage: usage of NCCL library", False),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_what_a_library_refuses_is_not_the_fault_of_another_rank(said: str, lost: bool) -> None:
    raised = Raised(kind="RuntimeError", message=said, at_ns=0, site=None)
    assert lost_contact(raised) == lost


def test_ranks_that_wait_for_a_key_that_is_set_behind_them_stand_in_a_circle(
    tmp_path: Path,
) -> None:
    finding = _one(_check(tmp_path, scripts.KEY_BEHIND, options=("--ranks", "3"))[1])
    assert (finding["kind"], finding["ranks"]) == ("deadlock", [0, 1, 2])
    assert "a key of the store that no rank has set" in finding["what"]
    assert "rank 1 waits for rank 0 in store.get of 'ready' at" in finding["what"]
    assert _at(finding, 0) == _lines(scripts.KEY_BEHIND, "here")
    assert _at(finding, 1) == _lines(scripts.KEY_BEHIND, "there")


@pytest.mark.slow
def test_ranks_that_ask_for_a_key_again_and_again_wait_for_it(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.KEY_ASKED, options=("--ranks", "2"))[1])
    assert (finding["kind"], finding["ranks"]) == ("deadlock", [0, 1])
    assert "Rank 0 asks again and again for a key of the store" in finding["what"]
    assert "rank 0 waits for rank 1 in store.add of 'come' at" in finding["what"]
    assert _at(finding, 0) == _lines(scripts.KEY_ASKED, "here")
    assert _at(finding, 1) == _lines(scripts.KEY_ASKED, "there")


@pytest.mark.slow
def test_who_asks_for_a_key_that_another_rank_sets_late_is_left_alone(tmp_path: Path) -> None:
    done, answer = _check(tmp_path, scripts.KEY_ASKED_LONG, options=("--ranks", "2"))
    assert (done.code, answer["exit_code"], answer["ended_by_check"]) == (0, 0, False)
    assert [one for one in answer["findings"] if one["kind"] != "straggler"] == []


@pytest.mark.slow
def test_a_key_that_nobody_set_is_missed_of_the_rank_that_has_left(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.KEY_NEVER, options=("--ranks", "3"))[1])
    assert (finding["kind"], finding["ranks"]) == ("missing", [0])
    assert "store.wait of 'this', 'that'" in finding["what"]
    assert "which ended without setting it" in finding["what"]
    assert _at(finding, 2) == _lines(scripts.KEY_NEVER, "here")


@pytest.mark.slow
def test_a_key_that_a_thread_may_set_is_no_deadlock(tmp_path: Path) -> None:
    done, answer = _check(tmp_path, scripts.KEY_BY_THREAD, options=("--ranks", "3"))
    assert (done.code, answer["exit_code"], answer["ended_by_check"]) == (0, 0, False)


@pytest.mark.slow
def test_who_waits_for_a_key_of_a_store_of_its_own_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDER", str(tmp_path))
    done, answer = _check(tmp_path, scripts.KEY_OF_ITS_OWN)
    # It is told while it waits, and in the end that it gave up.
    assert "rank 1 waits in store.wait of 'ready'" in " ".join(done.err.split())
    finding = _one(answer)
    assert (finding["kind"], finding["ranks"]) == ("died", [1])
    assert "in store.wait of 'ready'" in finding["what"]
    assert _at(finding, 1) == _lines(scripts.KEY_OF_ITS_OWN, "here")


def test_a_rank_that_ends_before_it_joins_is_told_with_its_code(tmp_path: Path) -> None:
    finding = _one(_check(tmp_path, scripts.EARLY)[1])
    assert (finding["kind"], finding["ranks"]) == ("died", [1])
    assert "exit code 7" in finding["what"]


@pytest.mark.slow
def test_a_late_rank_is_no_hang(tmp_path: Path) -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with _started(tmp_path, scripts.LATE, "told", **pipes) as process:
        assert process.stderr
        assert process.stdout
        told = next(text for text in process.stderr if "rank 0 still runs" in text)
        (tmp_path / "told").touch()
        process.stderr.read()
        answer = json.loads(process.stdout.read().splitlines()[-1])
        assert process.wait(_HANGS_AFTER_S) == 0
    assert "Rank 1 waits for rank 0 in" in told
    assert answer["ok"]
    assert {one["kind"] for one in answer["findings"]} == {"straggler"}
    late = [one for one in answer["findings"] if one["ranks"] == [0]]
    assert any(_at(one, 0) & _lines(scripts.LATE, "there") for one in late)


@pytest.mark.slow
def test_a_rank_that_holds_the_interpreters_lock_is_seen(tmp_path: Path) -> None:
    with _started(tmp_path, scripts.LOCKED, stderr=subprocess.PIPE) as process:
        assert process.stderr
        (line,) = _lines(scripts.LOCKED, "there")
        told = next(text for text in process.stderr if "still runs" in text)
        assert f"script.py:{line}" in told
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(_HANGS_AFTER_S) != 0


@pytest.mark.slow
def test_ranks_that_heed_no_interrupt_end_at_another(tmp_path: Path) -> None:
    heeded = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with _started(tmp_path, scripts.BLOCKED, stderr=subprocess.PIPE, preexec_fn=heeded) as process:
        assert process.stderr  # stdout is for the JSON alone
        blocked = (line for line in process.stderr if line == "blocks\n")
        lines = [next(blocked) for _ in range(2)]
        while process.poll() is None:
            time.sleep(1)  # the first time for what is between the line that it writes and the wait
            process.send_signal(signal.SIGINT)
    assert lines == ["blocks\n"] * 2
    # By SIGTERM; or a later one found it after that, with its report to write, or about to end.
    ended = {128 + one for one in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)}
    assert process.returncode in {*ended, -signal.SIGINT}


@pytest.mark.slow
def test_a_hang_is_told_under_a_launcher_too(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(scripts.BRANCH)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "steptime", "check", "--out", "run", "script.py"]
    done = subprocess.run(
        [sys.executable, *torchrun, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=_HANGS_AFTER_S,
    )
    assert done.returncode == 1
    assert done.stdout.count("MISMATCH") == 1
    assert json.loads((tmp_path / "run" / "run.json").read_text())["ended_by_check"]


def test_no_process_of_the_job_is_left(tmp_path: Path) -> None:
    seconds = str(1_000_000 + os.getpid())  # of this test, not of one that runs beside it
    child = f"import subprocess\nsubprocess.Popen(['sleep', '{seconds}'])\nbig ="
    _check(tmp_path, scripts.BOTH_SEND.replace("big =", child))
    deadline = time.monotonic() + _HANGS_AFTER_S
    while (left := _commands(seconds)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def _commands(word: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if words[:1] == ["sleep"] and word in words and _is_ours(path):
                found.append(" ".join(words))
    return found


def _is_ours(path: Path) -> bool:
    return path.stat().st_uid == os.getuid()


def test_a_script_keeps_its_exit_code(tmp_path: Path) -> None:
    done, answer = _check(tmp_path, "raise SystemExit(7)", options=())
    assert (done.code, answer["exit_code"], answer["findings"]) == (7, 7, [])


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [
        (None, ""),
        (0, ""),
        (7, " The script left with 7 by itself."),
        (143, " The script was ended by SIGTERM, exit code 143."),
    ],
)
def test_nothing_found_says_how_a_script_ended(exit_code: int | None, said: str) -> None:
    out = io.StringIO()
    print_findings(Console(file=out), [], exit_code)
    assert out.getvalue() == f"Nothing was found.{said}\n"


def test_only_the_kinds_that_are_asked_for_fail(tmp_path: Path) -> None:
    done, answer = _check(
        tmp_path, scripts.SHAPES, options=("--ranks", "2", "--fail-on", "deadlock")
    )
    assert answer["ok"]
    assert [one["kind"] for one in answer["findings"]] == ["mismatch"]
    # It failed by itself, or stood still and was ended.
    assert (done.code, answer["exit_code"]) in {(1, None), (1, 1)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.py"], "there is no script or run none.py"),
        (["--fail-on", "rain", "script.py"], "there is no finding 'rain'"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "script.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "steptime", "check", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=_HANGS_AFTER_S,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_a_recorded_run_is_judged_afterwards(tmp_path: Path) -> None:
    _check(tmp_path, scripts.UNEVEN)
    (tmp_path / "run" / "run.json").unlink()
    found = st.check(tmp_path / "run")
    assert [(one.kind.value, list(one.ranks)) for one in found.findings] == [("missing", [0])]
    assert not found.ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "said"), [("raises", "raised IndexError"), ("dies", "was killed by SIGSEGV")]
)
def test_a_rank_that_the_script_started_itself_is_told_as_died(
    how: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(scripts.SPAWNING)
    words = ["steptime", "check", "--json", "script.py", str(tmp_path / "store"), how]
    command = [sys.executable, "-m", *words]  # a fork of this process could not spawn
    environ = {**os.environ, "TMPDIR": str(tmp_path)}  # where torch leaves what was raised
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=_HANGS_AFTER_S,
        check=False,
    )
    finding = _one(json.loads(done.stdout.splitlines()[-1]))
    assert (finding["kind"], finding["ranks"]) == ("died", [1])
    assert said in finding["what"]
    there = "there" if how == "raises" else "here"
    assert _lines(scripts.SPAWNING, there) <= _at(finding, 1)
    assert _at(finding, 0) == _lines(scripts.SPAWNING, "here")
