"""The circulant all_reduce beside others, on numbers of ranks that are no power of two.

    python benchmarks/circulant.py [--ranks 3,5,6,7]
    python benchmarks/circulant.py --measure [--sizes 1KiB,4MiB] [--pairs 15]

Computed from the schedules, for a vector of S bytes on p ranks: rounds, the bytes that the busiest
rank sends, and the bytes on the way from the start to the last rank's end, which are what the
operation takes at one byte a second and no latency. For circulant that must be 2⌈log₂p⌉ rounds and
2(p - 1)/p·S (Träff, arXiv 2410.14234). ``--measure`` carries the schedules out by gloo's messages,
in turn on the same ranks, and puts each one's time over circulant's.
"""

import argparse
import os
import sys
from math import ceil, log2

import numpy as np
from as_rank import as_rank

from steptime.collectives import algorithm_named, schedule
from steptime.collectives.price import price, time
from steptime.launch import run_ranks
from steptime.units import Size, parse_bytes
from steptime.world import detect

NAMES = ("circulant", "rabenseifner", "ring", "recursive_doubling")
PRICED_BYTES = 4096 * 2520  # divisible by every number of ranks up to 10


def computed(numbers: list[int]) -> None:
    print("all_reduce, computed: rounds; bytes that the busiest rank sends; bytes on the way")
    for p in numbers:
        print(f"\n{p} ranks" + " " * 12 + "rounds    sent  on way")
        print(f"{'2⌈log₂p⌉, 2(p-1)/p':<18} {2 * ceil(log2(p)):>6} {2 * (p - 1) / p:5.3f} S")
        for name in NAMES:
            plan = schedule(algorithm_named("all_reduce", name), p)
            cost = price(plan, PRICED_BYTES)
            sent = cost.bytes_sent.max() / PRICED_BYTES
            way = time(plan, PRICED_BYTES, alpha=0, beta=1, gamma=0) / PRICED_BYTES
            print(f"{name:<18} {cost.rounds:>6} {sent:5.3f} S {way:5.3f} S")


def rank(sizes: list[int], pairs: int) -> None:
    import torch
    from side_by_side import in_turns, machine, ratio

    from steptime.dtypes import dtype_named
    from steptime.measure.exact import ExactData
    from steptime.measure.operation import operation_named
    from steptime.measure.torch_transport import TorchTransport
    from steptime.measure.trial import count_wrong, prepare, trial

    def work() -> None:
        transport = TorchTransport(torch.device("cpu"))
        operation, dtype = operation_named("all_reduce"), dtype_named("float32")
        if transport.rank == 0:
            print(machine())
            print(f"{transport.ranks} ranks of 1 thread, gloo, {pairs} repetitions")
            print(f"{'size':>6} {'':<18} {'µs':>10}  over circulant")
        for nbytes in sizes:
            data = ExactData(operation, dtype, "sum", transport.ranks, 0, nbytes // 4)
            contenders = {}
            for name in NAMES:
                algorithm = algorithm_named("all_reduce", name)
                one = trial(transport, data, algorithm, (0,) * transport.ranks, in_place=True)
                assert one
                prepare(transport, one, data)
                one.run()
                assert count_wrong(transport, one, data) == 0, f"{name}: a wrong sum"
                transport.write(one.receive, np.zeros(len(one.receive)))
                contenders[name] = one.run
            seconds = in_turns(contenders, pairs, transport.barrier)
            if transport.rank == 0:
                for name, taken in seconds.items():
                    print(
                        f"{Size(nbytes)!s:>6} {name:<18} {1e6 * np.median(taken):10.1f}"
                        f"  {ratio(taken, seconds['circulant'])}"
                    )

    as_rank(work)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="3,5,6,7")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--sizes", default="1KiB,4MiB")
    parser.add_argument("--pairs", type=int, default=15)
    options = parser.parse_args()
    if detect(os.environ) is not None:
        rank(list(map(parse_bytes, options.sizes.split(","))), options.pairs)
        return 0
    numbers = list(map(int, options.ranks.split(",")))
    computed(numbers)
    for p in numbers if options.measure else ():
        print(flush=True)
        if code := run_ranks(sys.argv, p, threads=1):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
