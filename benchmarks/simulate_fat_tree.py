"""An all_to_all of 256 ranks on a fat tree, 4:1 oversubscribed, in steptime and in SimGrid.

    python benchmarks/simulate_fat_tree.py [--ranks 256] [--runs 5]

Sixteen hosts a leaf share a trunk of a quarter of their bandwidth, so that most messages compete.
``pairwise`` has p - 1 rounds of one message a rank; ``direct`` has all p(p - 1) under way at once.
Both simulators must agree on the simulated time to 1e-6. The ratio is that of the median wall-clock
seconds, in turn: SimGrid's (C++, CM02, one actor a rank) of the simulation alone, steptime's of all
that follows its imports. Bar: at least 3 for each.
"""

import argparse
import sys

import numpy as np
from with_simgrid import Case, built, machine

BAR = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    peer = built()
    print(machine())
    if peer is None:
        print("SimGrid is needed, with g++: install Debian's libsimgrid-dev", file=sys.stderr)
        return 1
    Case("all_to_all", "direct", 4, 4, 2, 4).steptime()  # compiles, or loads what was compiled
    print(f"{'':<10} {'messages':>8} {'simulated':>11} {'steptime':>9} {'SimGrid':>9} {'ratio':>6}")
    met = True
    for name in ("pairwise", "direct"):
        nbytes = options.ranks * 390_625
        case = Case("all_to_all", name, options.ranks, nbytes, per_leaf=16, oversubscription=4)
        own, theirs = [], []
        for _ in range(options.runs):
            seconds, wall, messages = case.steptime()
            own.append(wall)
            other, wall = case.simgrid(peer)
            theirs.append(wall)
            assert abs(seconds / other - 1) < 1e-6, (seconds, other)
        own_s, their_s = np.median(own), np.median(theirs)
        print(
            f"{name:<10} {messages:>8,} {1e3 * seconds:>8.4f} ms {own_s:>7.3f} s {their_s:>7.3f} s "
            f"{their_s / own_s:>6.1f}"
        )
        met &= bool(their_s / own_s >= BAR)
    print(f"bar: {BAR:g} times as fast as SimGrid in each: {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
