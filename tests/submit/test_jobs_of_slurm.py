"""Jobs of a Slurm that runs, from their start to their end."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from steptime.runs.run_folder import read_record

SUBMIT = f"{sys.executable} -m steptime submit"
TINY = "gpt2-nano --layers 1 --heads 2 --hidden 32 --tokens 32 --batch 4 --data text.txt"


NONE_LEFT = """
for _ in $(seq 60); do squeue -ht PD,R | grep -q . || break; sleep 1; done; squeue -ht PD,R
"""


def beside(slurm: list[str], script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What bash says to a script beside a Slurm of four nodes, in a folder."""
    lines = f'set -eu\nsubmit() {{ exec {SUBMIT} "$@"; }}\n{dedent(script)}'
    return subprocess.run(
        [*slurm, "timeout", "1000", "bash", "-c", lines],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1100,
    )


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A folder with a text to train on."""
    (tmp_path / "text.txt").write_text("where the time of a step goes\n" * 200)
    return tmp_path


@pytest.mark.slow
def test_a_comparison_on_four_nodes_ends_with_its_run(slurm: list[str], text: Path) -> None:
    asked = "--nodes 4 --ranks-per-node 1 --time 10min --out job"
    compare = f"compare {TINY} --steps 2 --warmup 0 --strategies replicated,server"
    done = beside(slurm, f"submit {asked} -- {compare}", text)
    assert done.returncode == 0, done.stderr
    assert "steptime: job 1 is sent: job/job.sh\n" in done.stderr
    assert "steptime: job 1 runs on n[1-4]\n" in done.stderr
    assert done.stderr.endswith("steptime: job 1 is done; its run: job/run\n")
    assert "report: job/run/report.html" in done.stdout
    assert done.stdout == (text / "job" / "job-1.out").read_text()
    record = read_record(text / "job" / "run")
    assert set(record["strategies"]) == {"replicated", "server"}
    assert record["launcher"] == "srun"


def test_a_job_that_fails_ends_submit_with_its_exit_code(slurm: list[str], tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("import os\nos.environ['RANK'] == '1' and os.abort()\n")
    asked = f"--ranks-per-node 2 --json --out job -- {sys.executable} fails.py"
    done = beside(slurm, f"submit {asked}", tmp_path)
    assert done.returncode == 134
    assert json.loads(done.stdout) == {"error": "job 1 failed: a rank was killed by SIGABRT"}


@pytest.mark.slow
def test_what_slurm_refuses_and_what_users_end(slurm: list[str], tmp_path: Path) -> None:
    script = """
        (submit --partition nowhere -- bench) || echo "refused $?"
        (submit --out held --detach --sbatch '--hold --comment=a' -- sleep 60)
        (submit --follow 1) 2>&1 & follower=$!
        sleep 3; scancel 1; wait $follower || echo "cancelled $?"
        set -m  # or what is started with & hears no Ctrl-C
        (submit --out left -- sleep 60) 2>&1 & follower=$!
        until squeue --noheader --states R --format %j | grep -q sleep; do sleep 0.2; done
        sleep 2; kill -INT $follower; wait $follower || echo "left $?"
        squeue --noheader --format "still %T" --jobs 2; scancel 2
        (submit --follow 99) 2>&1 || echo "unknown $?"
    """
    said = beside(slurm, script, tmp_path)
    found = said.stdout + said.stderr
    assert "Slurm takes no such job: Invalid partition name specified" in found
    assert "refused 2\n" in found
    assert "job 1 waits (JobHeldUser: it is held: scontrol release lets it go)" in found
    assert "steptime: job 1 was cancelled\ncancelled " in found
    assert "job 2 goes on: steptime submit --follow 2 follows it again" in found
    assert "left 130\nstill RUNNING\n" in found
    assert "Slurm does not know job 99, or no longer" in found
    assert "unknown 1\n" in found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_training_that_is_preempted_ends_as_one_that_is_not(slurm: list[str], text: Path) -> None:
    train = f"train {TINY} --steps 120 --checkpoint-every 120 --resume auto"
    nodes = "--nodes 2 --ranks-per-node 1"
    script = f"""
        (submit {nodes} --out alone -- {train} --out a)
        (submit {nodes} --out preempted -- {train} --out b) & follower=$!
        until grep -qs "^step  *12/" preempted/job-2.out; do sleep 0.1; done
        sbatch --partition urgent --nodes 4 --exclusive --wrap "sleep 1"
        until scontrol show job 2 | grep -q Restarts=1; do sleep 0.5; done
        until grep -qs "goes on from" preempted/job-2.out || ! kill -0 $follower; do
            scontrol update JobId=2 StartTime=now  # once it is to start in 2 minutes
            sleep 0.5
        done
        wait $follower
    """
    done = beside(slurm, script, text)
    assert done.returncode == 0, done.stderr
    assert "job 2, requeued once, runs on n[1-2]" in done.stderr
    step = re.search(r"stopped by SIGTERM after step (\d+)", done.stdout)
    assert step is not None
    assert f"goes on from b/checkpoint_{int(step[1]):08}" in done.stdout
    records = [read_record(text / name) for name in "ab"]
    hashes = [one["strategies"]["overlapped_sharded"]["parameter_hash"] for one in records]
    assert len({rank for run in hashes for rank in run}) == 1
    assert records[1]["goodput"]["restarts"] == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_training_whose_time_is_over_waits_to_go_on(slurm: list[str], text: Path) -> None:
    train = f"train {TINY} --steps 100000 --checkpoint-every 100000 --resume auto --out b"
    script = f"""
        (submit --time 2min --notice 90s --out timed -- {train}) & follower=$!
        until scontrol show job 1 | grep -q Restarts=1; do sleep 0.5; done
        until ls b/checkpoint_*; do sleep 0.5; done
        scancel 1; wait $follower || echo "cancelled $?"
    """
    done = beside(slurm, script, text)
    assert "stopped by SIGTERM after step" in done.stdout
    assert "cancelled " in done.stdout


@pytest.mark.slow
def test_an_array_of_simulated_points(slurm: list[str], tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    scale = "scale gpt2-124M --cluster dgx-h100 --ranks 2,4 --strategies replicated --quiet --json"
    array = f"{sys.executable} -m steptime {scale} --jobs slurm:2 --cache kept --out scaled"
    here = f"{sys.executable} -m steptime {scale} --out here"
    done = beside(slurm, f"{array}; {here}", tmp_path)
    assert done.returncode == 0, done.stderr
    by_slurm, by_this = (json.loads(line)["cells"] for line in done.stdout.splitlines())
    assert by_slurm == by_this
    assert len([*(tmp_path / "kept").glob("*.point")]) == 2


@pytest.mark.slow
def test_jobs_of_an_array_that_die_are_told(slurm: list[str], tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    (tmp_path / "mine.py").write_text(
        "import os\n"
        "def died(number):\n    return os._exit(7) if number == 1 else number\n"
        "def divided(number):\n    return 1 // number\n"
    )
    (tmp_path / "sweep.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        "import mine\nfrom steptime.errors import SteptimeError\n"
        "from steptime.points.codec import Pickled\n"
        "from steptime.points.slurm import slurm_array\n"
        "from steptime.points.sweep import points\n"
        "for function in (mine.died, mine.divided):\n"
        "    try:\n"
        "        with slurm_array(Path('logs').absolute(), 2) as array:\n"
        "            list(points(function, [1, 0, 2], Pickled(), executor=array))\n"
        "    except SteptimeError as error:\n"
        "        print(error)\n"
    )
    script = f"PYTHONPATH=$PWD:${{PYTHONPATH:-}} {sys.executable} sweep.py; {NONE_LEFT}"
    done = beside(slurm, script, tmp_path)
    died, divided, *others = done.stdout.splitlines()
    assert died.startswith("job 1_0 of Slurm ended as FAILED without a result: ")
    assert re.fullmatch(r"job \d+_1 of Slurm failed: 'ZeroDivisionError: .* by zero'", divided)
    assert not others  # nothing is left in the queue


@pytest.mark.slow
def test_ranks_of_mpi_that_srun_starts(slurm: list[str], tmp_path: Path) -> None:
    step = "proxy gpt2-124M --layers 1 --scale-bytes 1/4096 --compute nothing --steps 1"
    ranks = f"{sys.executable} -m steptime {step} --backend mpi --out run"
    script = f"for _ in 1 2 3; do timeout 300 srun --mpi=pmi2 -N4 -n4 {ranks} > said; done"
    done = beside(slurm, script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert read_record(tmp_path / "run")["launcher"] == "srun"
