"""What messages both ways take at least between ordinary tensors, for sendrecv of calls.py.

    python benchmarks/ordinary_messages.py [--sizes 1MiB,16MiB] [--rounds 201]

Two processes copy each other's bytes once, out of the other's address space (process_vm_readv),
and do nothing else: benchmarks/ordinary_messages.c. A cell is the median in µs with its quartiles.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from side_by_side import machine

from steptime.units import parse_bytes

PROGRAM = Path(__file__).with_suffix(".c")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1MiB,16MiB")
    parser.add_argument("--rounds", type=int, default=201)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / PROGRAM.stem
        subprocess.run(["cc", "-O2", "-o", program, PROGRAM], check=True)
        print(machine())
        print(f"{'both ways':>9}{'pages of 4 KiB':>28}{'of 2 MiB':>28}")
        for size in asked.sizes.split(","):
            cells = [
                _cell(program, parse_bytes(size), huge=huge, rounds=asked.rounds)
                for huge in (False, True)
            ]
            print(f"{size:>9}{''.join(cells)}", flush=True)
    return 0


def _cell(program: Path, nbytes: int, *, huge: bool, rounds: int) -> str:
    words = [program, str(nbytes), str(int(huge)), str(rounds)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    low, middle, high = np.percentile(
        [1e6 * float(one) for one in done.stdout.split()], (25, 50, 75)
    )
    return f"{middle:12.1f} ({low:.1f}–{high:.1f})".rjust(28)


if __name__ == "__main__":
    sys.exit(main())
