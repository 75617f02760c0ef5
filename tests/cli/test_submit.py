"""submit as its users run it, up to where sbatch would take over."""

import sys
from pathlib import Path

import pytest
from command import here


def dry(folder: Path, *words: str) -> str:
    ended = here("submit", "--dry-run", *words, folder=folder)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def test_a_dry_run_prints_the_script_and_leaves_nothing(tmp_path: Path) -> None:
    script = dry(tmp_path, "--nodes", "2", "--time", "1h", "--", "bench", "all_reduce", "-n", "2")
    assert script.startswith("#!/bin/bash\n#SBATCH --job-name=steptime-bench\n")
    assert f"\n' rank {sys.executable} -m steptime bench all_reduce -n 2\n" in script
    assert f"#SBATCH --chdir={tmp_path}\n#SBATCH --output=./job-%j.out\n" in script
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", ["scale --ranks 2", "record a.py", "topo --measure", "replay a"])
def test_verbs_of_many_ranks(words: str, tmp_path: Path) -> None:
    assert "WORLD_SIZE=2 " in dry(tmp_path, "--nodes", "2", "--", *words.split())


def test_a_script_of_the_users_is_started_as_it_is_called(tmp_path: Path) -> None:
    script = dry(tmp_path, "--", "python3", "a train.py", "--lr", "0.1", "it's")
    assert "\n' rank python3 'a train.py' --lr 0.1 'it'\"'\"'s'\n" in script
    assert "--job-name=steptime-a_train.py\n" in script


@pytest.mark.parametrize(
    ("words", "requeues"),
    [
        ("-- train --checkpoint-every 5 --resume auto --out a", True),
        ("-- train --checkpoint-every 5 --out a", False),
        ("-- bench", False),
        ("--requeue -- bench", True),
        ("--no-requeue -- train --checkpoint-every 5 --resume auto --out a", False),
    ],
)
def test_what_loses_nothing_waits_again(words: str, requeues: bool, tmp_path: Path) -> None:
    script = dry(tmp_path, *words.split())
    assert ("#SBATCH --requeue\n" in script) == requeues
    assert ("#SBATCH --no-requeue\n" in script) != requeues


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "submit what?"),
        ("-- trian", "there is no verb and no program 'trian', did you mean train?"),
        ("-- mpirun -n 4 hostname", "srun starts the ranks of the job"),
        ("-- train --stepz 5", "--stepz"),
        ("-- train --lr -1", "--lr is -1.0: it must be above 0"),
        ("-- train --help", "see steptime train --help here"),
        ("-- submit -- train", "a job of submit would only submit"),
        ("-- train --ranks 4", "--ranks 4 disagrees with --nodes 1 of --ranks-per-node 1"),
        ("-- record --ranks 4 a.py", "--ranks 4 disagrees"),
        ("--nodes 2 -- show ring", "each of 2 ranks would do the same show"),
        ("--follow 4 -- bench", "--follow 4 follows a job that is there"),
        ("--scheduler lsf -- bench", "lsf"),
    ],
)
def test_what_would_fail_hours_later_is_refused_now(
    words: str, sentence: str, tmp_path: Path
) -> None:
    ended = here("submit", "--json", *words.split(), folder=tmp_path)
    assert ended.code == 2
    assert sentence in ended.json["error"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [("--", "bench"), ("--follow", "7")])
def test_without_slurm_it_says_so(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = here("submit", *words, folder=tmp_path)
    assert ended.code == 2
    assert "run this on a host that sends jobs to" in ended.err
    assert not list(tmp_path.iterdir())


def slurm_that_says(folder: Path, **programs: str) -> str:
    """A PATH with programs of Slurm's names, each a line of bash."""
    folder.mkdir()
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{line}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_a_refusal_of_sbatch_is_one_sentence_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = (
        "echo 'sbatch: error: invalid partition specified: x' >&2;"
        "echo 'sbatch: error: Batch job submission failed: Invalid partition name specified' >&2;"
        "exit 1"
    )
    monkeypatch.setenv("PATH", slurm_that_says(tmp_path / "bin", sbatch=says))
    ended = here("submit", "--partition", "x", "--", "bench", folder=tmp_path)
    assert ended.code == 2
    assert ended.err == (
        "steptime: Slurm takes no such job: Invalid partition name specified (invalid partition "
        "specified: x); see steptime submit --help\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_a_job_that_is_sent_from_within_another_gets_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = f"env > {tmp_path}/environ; echo 12"
    monkeypatch.setenv("PATH", slurm_that_says(tmp_path / "bin", sbatch=says))
    kept = {"SLURM_CONF": "/etc/other.conf", "SLURM_CLUSTERS": "far", "SBATCH_PARTITION": "gpu"}
    for name, value in (kept | {"SLURM_MEM_PER_NODE": "9", "SLURM_NTASKS": "4"}).items():
        monkeypatch.setenv(name, value)
    assert here("submit", "--detach", "--", "bench", folder=tmp_path).code == 0
    lines = (tmp_path / "environ").read_text().splitlines()
    given = [line for line in lines if line.startswith(("SLURM_", "SBATCH_"))]
    assert sorted(given) == sorted(f"{name}={value}" for name, value in kept.items())


def test_a_job_that_is_sent_alone_is_told_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", slurm_that_says(tmp_path / "bin", sbatch="echo '12;cluster'"))
    ended = here("submit", "--detach", "--json", "--out", "j", "--", "bench", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.json == {
        "verb": "submit",
        "job": 12,
        "state": "PENDING",
        "script": "j/job.sh",
        "output": "j/job-12.out",
        "run": "j/run",
    }
    assert " bench --out j/run\n" in (tmp_path / "j" / "job.sh").read_text()
