"""What must hold of any simulation, tried on many random steps and clusters.

    python benchmarks/simulate_properties.py [--examples 10000] [--seed N]

The properties are the tests of tests/simulate/test_properties.py, which the suite tries on a few
cases each; here the examples are shared out among them. A failure is shown with the smallest case
that hypothesis finds; the seed is printed, so that a run can be made again.
"""

import argparse
import os
import random
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1] / "tests"
PROPERTIES = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))  # noqa: S311
    asked = parser.parse_args()
    os.environ["STEPTIME_EXAMPLES"] = str(-(-asked.examples // PROPERTIES))
    print(f"{asked.examples} cases, --seed {asked.seed}", flush=True)
    began = time.monotonic()
    file = str(TESTS / "simulate/test_properties.py")
    status = pytest.main(["-q", "-p", "no:xdist", f"--hypothesis-seed={asked.seed}", file])
    print(f"{asked.examples} cases in {time.monotonic() - began:.0f} s")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
