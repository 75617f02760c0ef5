"""``check`` of programs: contradictions, calls that differ, circles of waits."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import steptime as st
from steptime.check.program import program_findings
from steptime.program import Collective, Compute, Op, Program, Recv, Send


def _two(first: tuple[Op, ...], second: tuple[Op, ...]) -> Program:
    return Program(
        name="two",
        axes={"dp": 2},
        lists=(first, second),
        class_of=np.array([0, 1], np.int32),
    )


def _call(name: str, nbytes: int = 8) -> Collective:
    return Collective(name=name, kind="all_reduce", group=("dp",), nbytes=nbytes)


@pytest.mark.parametrize(
    ("program", "kind", "said"),
    [
        (_two((_call("a"),), (_call("a", 16),)), "mismatch", "16 bytes"),
        (_two((_call("a"), _call("b")), (_call("a"),)), "missing", "nothing"),
        (
            _two(
                (
                    Recv(name="r", axis="dp", by=1, nbytes=8),
                    Send(name="s", axis="dp", by=1, nbytes=8),
                ),
                (
                    Recv(name="r", axis="dp", by=1, nbytes=8),
                    Send(name="s", axis="dp", by=1, nbytes=8),
                ),
            ),
            "deadlock",
            "never ends",
        ),
    ],
)
def test_a_wrong_program_is_told(program: Program, kind: str, said: str) -> None:
    (finding,) = program_findings(program)
    assert (finding.kind.value, list(finding.ranks)) == (kind, [0, 1])
    assert said in finding.what


def test_nothing_is_found_in_a_right_one() -> None:
    ops = (Compute(name="c", flops=10.0, nbytes=5.0), _call("a"))
    assert list(program_findings(_two(ops, ops))) == []


def test_the_programs_of_a_run_are_judged_without_running(tmp_path: Path) -> None:
    run = st.simulate("gpt2-124M", "dgx-h100-pod", ranks=8, strategy="sharded")
    run.save(tmp_path / "run")
    found = st.check(tmp_path / "run")
    assert (found.ok, found.findings, found.record.ranks) == (True, [], 8)


def test_a_folder_without_any_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "steptime", "check", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "neither a recorded run nor a program" in done.stderr
