"""Slurm arrays: submitit's jobs as an executor, of which a stand-in runs them here."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from steptime.errors import SteptimeError, UsageError
from steptime.points import slurm
from steptime.points.codec import Pickled
from steptime.points.options import SweepOptions
from steptime.points.sweep import points


class Job:
    """A job that runs when it is asked for its result; or never ends."""

    job_id = "7_0"

    def __init__(self, call: Callable[[], Any], endless: bool) -> None:
        self.call = call
        self.endless = endless
        self.cancelled = False

    def done(self) -> bool:
        return not self.endless

    def result(self) -> Any:
        try:
            return self.call()
        except Exception as error:
            raise RuntimeError(f"Job failed with trace:\n{error}") from None

    def cancel(self, check: bool) -> None:
        assert not check
        self.cancelled = True


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
        jobs = [Job(lambda task=task: function(task), self.endless) for task in tasks]
        self.jobs += jobs
        return jobs


@pytest.fixture
def submitit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[AutoExecutor]:
    module = ModuleType("submitit")
    module.AutoExecutor = AutoExecutor
    monkeypatch.setitem(sys.modules, "submitit", module)
    (tmp_path / "sbatch").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(slurm, "_POLL_S", 0.05)
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
        with pytest.raises(SteptimeError, match=r"job 7_0 of Slurm failed: .*by zero"):
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
    assert [job.cancelled for job in made.jobs] == [False, True]


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
