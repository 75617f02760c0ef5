"""The same worker under the launchers of a cluster, for real: torchrun, mpirun, srun, sbatch."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

import pytest

from forked import TORCHRUN as FORKED_BY_TORCHRUN
from forked import forked_python
from ports import held_port

FOLDER = Path(__file__).parent
WORKER = [sys.executable, str(FOLDER / "worker.py")]
BINARIES = Path(sys.executable).parent
TORCHRUN = str(BINARIES / "torchrun")
MPIEXEC = which("mpiexec", path=f"{BINARIES}:{os.environ['PATH']}") or ""

needs_mpiexec = pytest.mark.skipif(not MPIEXEC, reason="mpiexec (pip install mpich) is missing")


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, list[str], str]:
    """Exit code, the lines of stdout in the order of the alphabet, and stderr."""
    try:
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    return process.returncode, sorted(output.splitlines()), errors


def run(*command: str) -> tuple[int, list[str], str]:
    return finish(start(*command))


def greetings(launcher: str, size: int) -> list[str]:
    return [f"{launcher} rank {rank} of {size}" for rank in range(size)]


def test_torchrun(tmp_path: Path) -> None:
    ended = forked_python(*FORKED_BY_TORCHRUN, WORKER[1], "train", folder=tmp_path)
    assert (ended.code, sorted(ended.out.splitlines())) == (0, greetings("torchrun", 2))


@pytest.mark.slow
def test_torchrun_on_two_hosts() -> None:
    two = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1"]
    with held_port() as port:
        where = [*two, f"--master-port={port}"]
        agents = [start(TORCHRUN, *where, f"--node-rank={n}", WORKER[1], "train") for n in range(2)]
        ends = [finish(agent)[:2] for agent in agents]
    assert ends == [(0, [line]) for line in greetings("torchrun", 2)]


def test_under_torchrun_a_rank_that_fails_does_not_wait_for_its_collectives(tmp_path: Path) -> None:
    role = "raise_with_a_collective_in_flight"
    ended = forked_python(*FORKED_BY_TORCHRUN, WORKER[1], role, folder=tmp_path)
    assert ended.code == 1
    assert "steptime: rank 1 holds Work and gives up\n" in ended.err


@pytest.mark.slow
@needs_mpiexec
def test_mpirun_where_all_ranks_meet_through_a_file() -> None:
    jobs = [start(MPIEXEC, "-n", "2", *WORKER, "add") for _ in range(2)]
    assert [finish(job) for job in jobs] == [(0, greetings("mpirun", 2), "")] * 2
    assert not list(Path(tempfile.gettempdir()).glob(f"steptime-{os.getuid()}-*"))


@needs_mpiexec
@pytest.mark.slow
def test_mpirun_of_a_wrapper_script() -> None:
    code, lines, errors = run(MPIEXEC, "-n", "2", "sh", "-c", '"$@"; exit $?', "sh", *WORKER, "add")
    assert (code, lines, errors) == (0, greetings("mpirun", 2), "")


@needs_mpiexec
@pytest.mark.slow
def test_mpirun_told_where_to_meet() -> None:
    with held_port() as port:
        where = ["-genv", "MASTER_ADDR", "127.0.0.1", "-genv", "MASTER_PORT", str(port)]
        assert run(MPIEXEC, *where, "-n", "2", *WORKER, "add") == (0, greetings("mpirun", 2), "")


SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(4))
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_a_script_that_knows_torchrun_alone_is_recorded_under(
    launcher: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if launcher == "mpirun":
        if not MPIEXEC:
            pytest.skip("mpiexec (pip install mpich) is missing")
        start = [MPIEXEC, "-n", "2"]
    else:
        start = [*request.getfixturevalue("slurm"), "srun", "-N2", "-n2"]
    (tmp_path / "script.py").write_text(SCRIPT)
    out = tmp_path / "out"
    words = ["record", "--out", str(out), str(tmp_path / "script.py")]
    code, _, errors = run(*start, sys.executable, "-m", "steptime", *words)
    assert (code, len([*(out / "record").glob("*.notes")])) == (0, 2), errors


@needs_mpiexec
@pytest.mark.slow
def test_mpirun_on_several_hosts_asks_mpi_where_to_meet() -> None:
    # Each rank is told that it is alone on its host.
    command = ["-n", "2", "env", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1", *WORKER, "add"]
    code, lines, errors = run(MPIEXEC, *command)
    try:
        import mpi4py
    except ImportError:
        assert code == 2
        assert "steptime: mpirun started ranks on several hosts and named no meeting" in errors
    else:
        assert mpi4py.__version__
        assert (code, lines, errors) == (0, greetings("mpirun", 2), "")


@pytest.mark.slow
def test_srun_on_two_hosts(slurm: list[str]) -> None:
    code, lines, _ = run(*slurm, "srun", "-N2", "-n3", *WORKER, "add")
    assert (code, lines) == (0, greetings("srun", 3))


@pytest.mark.slow
def test_srun_with_pmi2(slurm: list[str]) -> None:
    code, lines, _ = run(*slurm, "srun", "--mpi=pmi2", "-N1", "-n2", *WORKER, "add")
    assert (code, lines) == (0, greetings("srun", 2))


@pytest.mark.slow
def test_the_error_of_a_rank_under_srun(slurm: list[str]) -> None:
    role = "raise_with_a_collective_in_flight"
    code, _, errors = run(*slurm, "srun", "-N2", "-n2", *WORKER, role)
    assert code == 2
    assert "steptime: rank 1 holds Work and gives up\n" in errors
    assert "steptime: rank 0 lost contact: another rank died\n" in errors


@pytest.mark.slow
def test_in_a_batch_script_srun_and_mpirun_start_ranks_and_the_shell_is_none(
    slurm: list[str], tmp_path: Path
) -> None:
    worker = " ".join(WORKER)
    script = tmp_path / "job.sh"
    mpirun = f"{MPIEXEC} -genv MASTER_ADDR n1 -genv MASTER_PORT 29400 -n 3 {worker} add"
    script.write_text(
        f"#!/bin/sh\n{worker} greet\nsrun -n 2 {worker} greet\n"
        f"{mpirun if MPIEXEC else ''}\ntouch {tmp_path}/done\n"
    )
    wait = f"until [ -e {tmp_path}/done ]; do sleep 0.1; done"
    submit = f"sbatch -N2 -n3 --output={tmp_path}/output {script} && {wait}"
    assert run(*slurm, "timeout", "600", "sh", "-c", submit)[0] == 0
    lines = [line for line in (tmp_path / "output").read_text().splitlines() if " rank " in line]
    expected = greetings("single", 1) + greetings("srun", 2)
    assert sorted(lines) == sorted(expected + (greetings("mpirun", 3) if MPIEXEC else []))
