"""A variable in the environment is enough, where steptime is installed."""

import os
import subprocess
from pathlib import Path

import pytest

import recorded_scripts as scripts
from steptime.record.operations import OPERATIONS
from steptime.record.read import read_logs

_HANGS_AFTER_S = 540.0


def _run(python: Path, *words: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [python, *words],
        cwd=cwd,
        env={**bare, **environ},
        capture_output=True,
        text=True,
        timeout=_HANGS_AFTER_S,
    )


def test_without_the_variable_nothing_is_imported(tmp_path: Path) -> None:
    python = scripts.python_with_startup(tmp_path / "venv")
    asks = "import sys; print([name for name in sys.modules if 'steptime' in name])"
    assert _run(python, "-c", asks, cwd=tmp_path).stdout == "[]\n"
    with_it = _run(python, "-c", asks, cwd=tmp_path, STEPTIME_RECORD="run")
    assert "steptime.record.start" in with_it.stdout
    assert not (tmp_path / "run").exists()  # nobody imported torch


def test_a_folder_that_cannot_be_written_leaves_the_script_alone(tmp_path: Path) -> None:
    python = scripts.python_with_startup(tmp_path / "venv")
    (tmp_path / "file").write_text("")
    done = _run(python, "-c", "import torch; print(1)", cwd=tmp_path, STEPTIME_RECORD="file")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr == f"steptime records nothing: {tmp_path / 'file'}: Not a directory\n"


@pytest.mark.slow
def test_the_variable_alone_records_spawned_ranks(tmp_path: Path) -> None:
    python = scripts.python_with_startup(tmp_path / "venv")
    work = tmp_path / "work"
    work.mkdir()
    (work / "script.py").write_text(scripts.SPAWNING)
    done = _run(
        python, "script.py", str(tmp_path / "store"), cwd=work, STEPTIME_RECORD="runs/spawned"
    )
    assert done.returncode == 0, done.stderr
    logs = read_logs(work / "runs" / "spawned")
    assert [log.rank for log in logs] == [0, 1]
    for log in logs:
        assert [OPERATIONS[call["operation"]].kind for call in log.calls] == ["all_reduce"] * 4
