"""What sbatch is given: a script that a person can read."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from steptime.errors import UsageError
from steptime.submit.options import SubmitOptions
from steptime.submit.script import Job, batch_script

JOB = Job(
    name="steptime-train",
    command=("python", "-m", "steptime", "train", "a b"),
    cwd=Path("/home/me"),
    output="runs/job-%j.out",
    made_by="steptime submit -- train 'a b'",
    requeue=False,
)


def directives(**asked: object) -> list[str]:
    script = batch_script(JOB, SubmitOptions(**asked))  # type: ignore[arg-type]
    prefix = "#SBATCH "
    return [line.removeprefix(prefix) for line in script.splitlines() if line.startswith(prefix)]


def test_what_is_asked_for_is_what_slurm_is_asked_for() -> None:
    found = directives(
        nodes=2,
        ranks_per_node=4,
        gpus_per_node=4,
        cpus_per_rank=8,
        time="90min",
        notice="30s",
        partition="gpu,spare",
        account="me",
        sbatch="--constraint=a100 --mem 4G --exclusive",
    )
    assert found == [
        "--job-name=steptime-train",
        "--nodes=2",
        "--ntasks-per-node=4",
        "--gpus-per-node=4",
        "--cpus-per-task=8",
        "--time=0-01:30:00",
        "--partition=gpu,spare",
        "--account=me",
        "--signal=TERM@30",
        "--chdir=/home/me",
        "--output=runs/job-%j.out",
        "--open-mode=append",
        "--no-requeue",
        "--constraint=a100",
        "--mem 4G",
        "--exclusive",
    ]


def test_each_gpu_has_a_rank_unless_told_otherwise() -> None:
    assert "--ntasks-per-node=1" in directives()
    assert "--ntasks-per-node=4" in directives(gpus_per_node=4)
    assert "--ntasks-per-node=8" in directives(gpus_per_node=4, ranks_per_node=8)


def test_what_is_not_asked_for_is_left_to_the_site() -> None:
    named = {line.partition("=")[0] for line in directives()}
    assert named.isdisjoint({"--time", "--partition", "--account", "--gpus-per-node"})


@pytest.mark.parametrize("time", ["1-12", "90:00", "1:30:00", "1-12:00:00"])
def test_times_of_slurm_pass_as_they_are(time: str) -> None:
    assert f"--time={time}" in directives(time=time)


def test_only_what_goes_on_puts_itself_into_the_queue_again() -> None:
    once = batch_script(JOB, SubmitOptions())
    again = batch_script(replace(JOB, requeue=True), SubmitOptions())
    assert "scontrol requeue" not in once
    assert "#SBATCH --requeue\n" in again
    assert 'if [ "$status" = 143 ]; then scontrol requeue "$SLURM_JOB_ID"; fi' in again


def ran(script: str, folder: Path, status: int = 0) -> tuple[int, list[str]]:
    """The script run by bash, with srun and scontrol that say how they were called."""
    for name, lines in {
        "srun": f'echo "srun $1 $2"; shift; SLURM_PROCID=3 SLURM_LOCALID=1 "$@"; exit {status}',
        "scontrol": '[ "$1" = show ] && echo n7 || echo "$@"',
        "python": 'echo "$MASTER_ADDR:$MASTER_PORT $RANK/$WORLD_SIZE $LOCAL_RANK/'
        '$LOCAL_WORLD_SIZE" "$3" "<$4>"',
    }.items():
        (folder / name).write_text(f"#!/bin/bash\n{lines}\n")
        (folder / name).chmod(0o755)
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "SLURM_JOB_ID": "60004"}
    done = subprocess.run(
        ["bash", "-eu"], input=script, env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_ranks_get_the_contract_of_torchrun_and_their_words_whole(tmp_path: Path) -> None:
    environ = SubmitOptions(nodes=2, ranks_per_node=2, setup='python() { command python "$@"; }')
    code, lines = ran(batch_script(JOB, environ).replace("SLURM_JOB_NODELIST", "PATH"), tmp_path)
    assert (code, lines) == (
        0,
        ["srun --kill-on-bad-exit=1 bash", "n7:20004 3/4 1/2 train <a b>"],
    )


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"nodes": 0}, "--nodes is 0: it must be at least 1"),
        ({"nodes": 1 << 19, "ranks_per_node": 4}, "--nodes times --ranks-per-node is 2097152"),
        ({"time": "30s"}, "Slurm counts in minutes"),
        ({"time": "2min"}, "--notice is 2min, and the job has 2min"),
        ({"time": "soon"}, "'soon' is not a time"),
        ({"notice": "20h"}, "--notice is 72000.0: it must be at most 65,535"),
        ({"partition": "a b"}, "--partition is 'a b': write a name without blanks"),
        ({"name": "x\n#SBATCH --nodes=9"}, "write a name without blanks"),
        ({"sbatch": "exclusive"}, "'exclusive' is no option: begin it with --"),
        ({"sbatch": "--comment='a"}, "no closing quotation"),
    ],
)
def test_what_cannot_be_asked_for(asked: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        SubmitOptions(**asked)  # type: ignore[arg-type]
    assert sentence in str(refused.value)
