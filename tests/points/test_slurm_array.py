"""Slurm arrays: submitit's jobs as an executor, of which a stand-in runs them here."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from steptime.errors import SteptimeError, UsageError
from steptime.points import slurm
from steptime.points.codec import Pickled
from steptime.points.options import SweepOptions
from steptime.points.sweep import points


class Job:
    """A job that runs when it is asked for its result; or never has one."""

    def __init__(self, call: Callable[[], Any], number: int, folder: Path, endless: bool) -> None:
        self.call = call
        self.job_id = f"7_{number}"
        paths = {"result_pickle": folder / f"{number}.pkl", "stderr": folder / f"{number}.err"}
        self.paths = SimpleNamespace(**paths)
        if not endless:
            folder.mkdir(parents=True, exist_ok=True)
            self.paths.result_pickle.touch()

    def result(self) -> Any:
        try:
            return self.call()
        except Exception as error:
            raise RuntimeError(f"Job failed with trace:\n{error}") from None


class AutoExecutor:
    """What submitit's class of this name is asked for."""

    made: "list[AutoExecutor]" = []  # noqa: RUF012

    def __init__(self, folder: Path, cluster: str) -> None:
        assert cluster == "slurm"
        self.folder = folder
        self.parameters: dict[str, Any] = {}
        self.arrays: list[int] = []
        self.jobs: list[Job] = []
        self.endless = False
        self.made.append(self)

    def update_parameters(self, **parameters: Any) -> None:
        self.parameters = parameters

    def map_array(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Job]:
        if "full" in str(self.folder):
            raise RuntimeError("sbatch: error: QOSMaxSubmitJobPerUserLimit")
        self.arrays.append(len(tasks))
        first = len(self.jobs)
        jobs = [
            Job(lambda task=task: function(task), first + n, self.folder, self.endless)
            for n, task in enumerate(tasks)
        ]
        self.jobs += jobs
        return jobs


def says(folder: Path, program: str, line: str) -> None:
    """Put a program of Slurm's name into a folder."""
    (folder / program).write_text(f"#!/bin/sh\n{line}\n")
    (folder / program).chmod(0o755)


@pytest.fixture
def submitit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[AutoExecutor]:
    module = ModuleType("submitit")
    module.AutoExecutor = AutoExecutor
    monkeypatch.setitem(sys.modules, "submitit", module)
    says(tmp_path, "sbatch", "exit 1")
    says(tmp_path, "squeue", "seq -f 7_%g 0 9")
    says(tmp_path, "scancel", f"echo $@ >> {tmp_path}/cancelled")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(slurm, "_POLL_S", 0.05)
    monkeypatch.setattr(slurm, "_QUEUE_S", 0.1)
    monkeypatch.setattr(AutoExecutor, "made", [])
    return AutoExecutor


def squared(number: int) -> int:
    if number < 0:
        raise UsageError(f"{number} is below 0")
    return number**2


def test_points_become_one_array_in_order(submitit: type[AutoExecutor], tmp_path: Path) -> None:
    options = SweepOptions(jobs="slurm:3", cache=tmp_path / "kept")
    with options.executor() as executor:
        found = points(squared, range(5), Pickled(), executor=executor, cache=options.kept())
        assert [one.result for one in found] == [0, 1, 4, 9, 16]
    (made,) = submitit.made
    assert (made.folder, sum(made.arrays)) == (tmp_path / "kept" / "slurm", 5)
    assert made.parameters["slurm_array_parallelism"] == 3
    assert len([*(tmp_path / "kept").glob("*.point")]) == 5


@pytest.mark.usefixtures("submitit")
def test_errors_of_jobs_are_sentences(tmp_path: Path) -> None:
    with slurm.slurm_array(tmp_path, 2) as array:
        with pytest.raises(UsageError, match="-2 is below 0"):
            list(points(squared, [1, -2], Pickled(), executor=array))
        with pytest.raises(SteptimeError, match=r"job 7_2 of Slurm failed: .*by zero"):
            list(points(lambda n: 1 // n, [0], Pickled(), executor=array))
    with (
        slurm.slurm_array(tmp_path / "full", 2) as array,
        pytest.raises(SteptimeError, match="Slurm takes no array: sbatch: error: QOSMaxSubmit"),
    ):
        list(points(squared, [1], Pickled(), executor=array))


def test_jobs_that_are_left_are_cancelled(submitit: type[AutoExecutor], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), slurm.slurm_array(tmp_path, 2) as array:
        array.submit(squared, 1).result(timeout=600)
        (made,) = submitit.made
        made.endless = True
        array.submit(squared, 2)
        while len(made.jobs) < 2:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert (tmp_path / "cancelled").read_text() == "7\n"


def test_a_job_that_leaves_the_queue_without_a_result_is_an_error(
    submitit: type[AutoExecutor], tmp_path: Path
) -> None:
    says(tmp_path, "scontrol", "echo 'JobId=7 JobState=OUT_OF_MEMORY Reason=OutOfMemory'")
    with (
        slurm.slurm_array(tmp_path, 2) as array,
        pytest.raises(SteptimeError, match=r"job 7_0 of Slurm ended as OUT_OF_MEMORY without a"),
    ):
        submitit.made[0].endless = True
        future = array.submit(squared, 1)
        with pytest.raises(TimeoutError):
            future.result(timeout=0.5)  # it is in the queue
        says(
            tmp_path, "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
        )
        future.result(timeout=60)


def test_without_submitit_or_slurm_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    sentence = r"needs submitit: pip install 'steptime\[slurm\]'"
    with pytest.raises(UsageError, match=sentence), slurm.slurm_array(tmp_path, 1):
        pass
    monkeypatch.setitem(sys.modules, "submitit", ModuleType("submitit"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no sbatch here"), slurm.slurm_array(tmp_path, 1):
        pass
