"""``steptime.submit``: the script of the verb, what is refused, and a job seen to its end."""

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import steptime as st
from cli.command import here
from steptime.errors import SteptimeError, UsageError
from steptime.submit.options import JobOptions, SubmitOptions

TINY = "gpt2-nano --layers 1 --heads 2 --hidden 32 --tokens 32 --batch 4 --steps 2 --data text.txt"
ENDED = "JobId=12 JobState={} ExitCode={} NodeList=n1 Restarts=1 StdOut={}"
FOLLOWED = """
import sys, steptime as st
job = st.submit("train", *sys.argv[1:], nodes=2, time="10min", out="job")
told, shown = [], []
status = job.follow(told.append, shown.append)
print(job.number, status.state, status.nodes, job.status().state)
print(told[-1], job.run().record.place.world_size, "".join(shown).count("report: "))
"""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with programs of Slurm's names: each job gets the number 12."""
    programs = {"sbatch": "echo 12", "scancel": f"echo $@ > {tmp_path}/cancelled"}
    for name, line in programs.items():
        program(tmp_path, name, line)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(folder: Path, name: str, line: str) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(f"#!/bin/bash\n{line}\n")
    (folder / "bin" / name).chmod(0o755)


def ends(folder: Path, state: str, code: str = "0:0") -> None:
    """From now on Slurm says that the job ended so."""
    (folder / "said").write_text("what it said\n")
    program(folder, "scontrol", f"echo '{ENDED.format(state, code, folder / 'said')}'")


def test_its_options_are_those_of_the_command_line() -> None:
    names = {one.name for one in fields(SubmitOptions)} - {"scheduler"}
    assert set(get_type_hints(JobOptions)) == names


@pytest.mark.parametrize(
    "command",
    ["train gpt2-nano --checkpoint-every 5 --resume auto", "record a.py --lr 1", "python3 a.py"],
)
def test_the_script_is_that_of_the_verb(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = st.submit(*command.split(), nodes=2, time="12h", dry_run=True)
    words = ["--dry-run", "--nodes", "2", "--time", "12h", "--", *command.split()]
    verb = here("submit", *words, folder=tmp_path).out
    maker = "# Made by: "
    ours, theirs = (
        [line for line in text.splitlines() if not line.startswith(maker)]
        for text in (job.script, verb)
    )
    assert ours == theirs
    assert f"\n{maker}steptime.submit, from Python\n" in job.script
    assert ("#SBATCH --requeue" in ours) == command.startswith("train")
    assert repr(job) == job.script.strip()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "asked", "sentence"),
    [
        ("", {}, "submit what?"),
        ("trian", {}, "there is no verb and no program 'trian', did you mean train?"),
        ("mpirun -n 4 hostname", {}, "srun starts the ranks of the job"),
        ("train --stepz 5", {}, "--stepz"),
        ("train --lr -1", {}, "--lr is -1.0: it must be above 0"),
        ("train --ranks 4", {}, "--ranks 4 disagrees with --nodes 1"),
        ("show ring", {"nodes": 2}, "each of 2 ranks would do the same show"),
        ("true", {"time": "30s"}, "Slurm counts in minutes"),
    ],
)
def test_what_would_fail_hours_later_is_refused_now(
    command: str, asked: dict[str, str], sentence: str, there: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        st.submit(*command.split(), **asked)
    assert sentence in str(refused.value)
    assert [path.name for path in there.iterdir()] == ["bin"]


def test_a_verb_is_sent_with_its_folder_and_its_run_comes_back(there: Path) -> None:
    job = st.submit("train", "gpt2-nano", out="job")
    assert (job.number, job.folder, job.left) == (12, Path("job"), Path("job/run"))
    assert " train --out job/run gpt2-nano\n" in (there / "job" / "job.sh").read_text()
    assert job.script == (there / "job" / "job.sh").read_text()
    assert "steptime submit --follow 12 follows it" in repr(job)
    assert (job.record()["state"], job.record()["run"]) == ("PENDING", "job/run")
    with pytest.raises(UsageError, match="is no folder"):
        job.run()
    run = st.simulate("gpt2-nano", "laptop", ranks=2, strategy="replicated", batch=8)
    run.save(job.left)
    assert job.run().step_s == run.step_s
    elsewhere = st.submit("train", "--out", "mine", out="other")
    assert (elsewhere.left, elsewhere.record()["run"]) == (Path("mine"), None)


@pytest.mark.slow
def test_a_job_is_followed_to_its_end_and_cancelled(there: Path) -> None:
    job = st.submit("true", out="job")
    ends(there, "COMPLETED")
    status = job.follow()
    assert (status.state, status.restarts, job.status()) == ("COMPLETED", 1, status)
    assert job.record(status)["exit_code"] == 0
    ends(there, "FAILED", "3:0")
    with pytest.raises(SteptimeError, match="job 12 failed: its command ended with") as failed:
        job.follow()
    assert failed.value.exit_code == 3
    job.cancel()
    assert (there / "cancelled").read_text() == "12\n"
    with pytest.raises(UsageError, match="no verb that leaves a run"):
        job.run()


def test_of_a_job_that_was_not_sent_nothing_can_be_asked(there: Path) -> None:
    job = st.submit("train", dry_run=True)
    for ask in (job.status, job.follow, job.cancel, job.run):
        with pytest.raises(UsageError, match="not sent"):
            ask()
    assert not (there / "cancelled").exists()


@pytest.mark.slow
def test_a_training_on_two_nodes_comes_back_as_a_run(slurm: list[str], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("where the time of a step goes\n" * 200)
    done = subprocess.run(
        [*slurm, "timeout", "400", sys.executable, "-c", FOLLOWED, *TINY.split()],
        cwd=tmp_path,
        env=os.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 COMPLETED n[1-2] COMPLETED\njob 1 runs on n[1-2] 2 1\n"
