"""Every verb that needs ranks, and a script of the user's, under every launcher.

    python benchmarks/launchers.py [--open-mpi PREFIX] [--intel-mpi PREFIX] [--only WORD]
        [--ranks 2]

torchrun, and an elastic one; the mpiexec beside this Python (MPICH's wheel) and that in each PREFIX
(venvs with Open MPI's wheel and with Intel's, impi-rt); srun on two nodes of a Slurm that lives in
namespaces for as long (Debian's packages), with --mpi=pmi2 where ranks are MPI's. Of Flux and PALS
processes get the variables, which says nothing about the launchers themselves. What only an MPI
starts has no mark elsewhere. ``--only`` takes the rows or columns with that word. The exit code is
1 where a cell fails, and the last line of what it said stands below the table.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which

from mpi_wheel import variables_of

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
LIMIT_S = 300
MODEL = "--layers 1 --heads 2 --hidden 32 --tokens 32 --batch 4 --data text.txt"
STEPS = f"gpt2-nano {MODEL} --steps 2"
PROXY = "proxy gpt2-124M --layers 1 --scale-bytes 1/4096 --compute nothing --steps 2"
SHORT = "-b 1K -e 1K -n 2"
NAMESPACES = ["unshare", "-nmpu", "--fork", "--mount-proc", "--kill-child"]

VERBS = {
    "compare": f"compare {STEPS} --warmup 0 --strategies replicated,server --out OUT",
    "train": f"train {STEPS} --val-batches 1 --out OUT",
    "bench": f"bench all_reduce {SHORT} --out OUT",
    "bench, mpi": f"bench all_reduce {SHORT} --backend mpi --out OUT",
    "tune": f"tune all_gather {SHORT} --algorithms ring,bruck --out OUT",
    "proxy": f"{PROXY} --out OUT",
    "proxy, mpi": f"{PROXY} --backend mpi --out OUT",
    "replay": "replay step --steps 2 --warmup 1 --out OUT",
    "topo": "topo --measure --out OUT",
    "record": "record --out OUT script.py",
    "check": "check --out OUT script.py",
}
SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(4):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Launcher:
    """How ranks are started: words before the command, or each process with variables."""

    words: Sequence[str]
    """What stands before ``steptime``."""

    mpi: Sequence[str] = ()
    """The same for ranks of MPI, where it starts such."""

    environ: dict[str, str] = field(default_factory=dict)
    each: Callable[[int, int], dict[str, str]] | None = None

    def variables(self, ranks: int) -> list[dict[str, str]]:
        """Those of each process that is to be started."""
        return [self.each(rank, ranks) for rank in range(ranks)] if self.each else [{}]


def torchrun(*options: str) -> Launcher:
    return Launcher([str(BIN / "torchrun"), *options, "-m"], environ={"OMP_NUM_THREADS": "1"})


def launchers(ranks: int, open_mpi: Path | None, intel_mpi: Path | None) -> dict[str, Launcher]:
    """Those that are here."""
    n = str(ranks)
    rendezvous = ("--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--max-restarts=1")
    found = {
        "torchrun": torchrun(f"--nproc-per-node={n}"),
        "elastic": torchrun("--nnodes=1:2", f"--nproc-per-node={n}", *rendezvous),
    }
    python = [sys.executable, "-m"]
    if (BIN / "mpiexec").exists():
        words = [str(BIN / "mpiexec"), "-n", n, *python]
        found["MPICH"] = Launcher(words, words)
    if open_mpi:
        words = [str(open_mpi / "bin" / "mpiexec"), "--oversubscribe", "-n", n, *python]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        environ = variables_of("openmpi", open_mpi) | root
        found["Open MPI"] = Launcher(words, words, environ)
    if intel_mpi:
        words = [str(intel_mpi / "bin" / "mpiexec.hydra"), "-n", n, *python]
        root = {"I_MPI_ROOT": str(intel_mpi), "PATH": f"{intel_mpi / 'bin'}:{os.environ['PATH']}"}
        environ = variables_of("mpich", intel_mpi) | root
        found["Intel MPI"] = Launcher(words, words, environ)
    if which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin"):
        slurm = [*NAMESPACES, "bash", str(ROOT / "tests" / "minislurm.sh"), "2", n]
        found["srun"] = Launcher(
            [*slurm, "srun", "-N2", f"-n{n}", *python],
            [*slurm, "srun", "--mpi=pmi2", "-N2", f"-n{n}", *python],
        )
    found["Flux*"] = Launcher(python, each=flux)
    found["PALS*"] = Launcher(python, each=pals)
    return found


def flux(rank: int, ranks: int) -> dict[str, str]:
    place = {
        "FLUX_TASK_RANK": rank,
        "FLUX_TASK_LOCAL_ID": rank,
        "PMI_RANK": rank,
        "PMI_SIZE": ranks,
    }
    return {k: str(v) for k, v in (place | {"FLUX_JOB_SIZE": ranks, "FLUX_JOB_NNODES": 1}).items()}


def pals(rank: int, ranks: int) -> dict[str, str]:
    place = {"PMI_RANK": rank, "PMI_SIZE": ranks, "PMI_LOCAL_RANK": rank, "PMI_LOCAL_SIZE": ranks}
    return {k: str(v) for k, v in (place | {"PALS_RANKID": rank}).items()}


def outcome(launcher: Launcher, verb: str, ranks: int, folder: Path) -> str:
    """Empty where a verb left its run, else the last line of what it said."""
    out = folder / "out" / f"{len(list((folder / 'out').iterdir()))}"
    out.mkdir()
    words = launcher.mpi if "--backend mpi" in verb else launcher.words
    command = [*words, "steptime", *verb.replace("OUT", str(out)).split()]
    jobs = [
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **launcher.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for variables in launcher.variables(ranks)
    ]
    try:
        said = "".join(job.communicate(timeout=LIMIT_S)[0] for job in jobs)
    except subprocess.TimeoutExpired:
        return f"it was not done after {LIMIT_S} s"
    finally:
        for job in jobs:
            job.kill()
    code = max(job.returncode for job in jobs)
    logs = len([*(out / "record").glob("*.notes")])
    left = (out / "run.json").exists() or logs >= ranks
    if code == 0 and left:
        return ""
    lines = [line for line in said.splitlines() if line.startswith("steptime: ")]
    last = (lines or said.strip().splitlines() or ["it said nothing"])[-1]
    return f"exit code {code}, {'a' if left else 'no'} run: {last}"


def main() -> int:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("--open-mpi", type=Path)
    asked.add_argument("--intel-mpi", type=Path)
    asked.add_argument("--only", default="")
    asked.add_argument("--ranks", type=int, default=2)
    given = asked.parse_args()
    columns = launchers(given.ranks, given.open_mpi, given.intel_mpi)
    cells = [
        (verb, name)
        for verb in VERBS
        for name, one in columns.items()
        if (given.only in verb or given.only in name) and ("mpi" not in verb or one.mpi)
    ]
    failures: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "out").mkdir()
        (folder / "text.txt").write_text("where the time of a step goes\n" * 200)
        (folder / "script.py").write_text(SCRIPT)
        simulate = f"simulate gpt2-nano --cluster laptop --ranks {given.ranks} --layers 1 --quiet"
        words = [*simulate.split(), "--strategy", "replicated", "--out", "step"]
        subprocess.run(
            [sys.executable, "-m", "steptime", *words], cwd=folder, check=True, capture_output=True
        )
        for verb, column in cells:
            said = outcome(columns[column], VERBS[verb], given.ranks, folder)
            if said:
                failures[verb, column] = said
    print(f"{'':10}" + "".join(f"{name:>{len(name) + 2}}" for name in columns))
    for verb in VERBS:
        marks = [
            "" if (verb, c) not in cells else "fails" if (verb, c) in failures else "works"
            for c in columns
        ]
        under = zip(columns, marks, strict=True)
        print(f"{verb:10}" + "".join(f"{mark:>{len(name) + 2}}" for name, mark in under))
    print("* its variables alone, in processes that this script started")
    for (verb, column), said in failures.items():
        print(f"\n{verb} under {column}: {said}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
