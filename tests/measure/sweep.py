"""Every operation under every algorithm, carried out on a transport and checked."""

import json
import sys
from collections.abc import Iterator

from steptime.collectives import COLLECTIVES, algorithm, algorithms, send
from steptime.dtypes import DTYPES
from steptime.measure.bench import wrong_elements
from steptime.measure.exact import ExactData
from steptime.measure.operation import OPERATIONS
from steptime.measure.transport import BenchTransport
from steptime.measure.trial import trial

CASES = [
    ("float32", "sum", 1000),
    ("float64", "avg", 1),
    ("int8", "product", 70_000),
    ("int32", "max", 5),
]


@algorithm("all_reduce", name="deaf")
def _deaf(ranks: int) -> Iterator:
    """A ring in which the last rank does not add what it gets in the first round."""
    for index, transfers in enumerate(algorithms("all_reduce")["ring"].generate(ranks)):
        if index == 0:
            transfers["reduce"][transfers["dst"] == ranks - 1] = False
        yield transfers


@algorithm("broadcast", name="silent")
def _silent(ranks: int) -> Iterator:
    """A broadcast that reaches all but the last rank."""
    for dst in range(1, ranks - 1):
        yield send(0, dst, 0, ranks)


def sweep(transport: BenchTransport) -> dict[str, int]:
    """Wrong elements of all ranks by what was carried out."""
    found = {}
    for operation in OPERATIONS.values():
        known = algorithms(operation.name) if operation.name in COLLECTIVES else {}
        for chosen in [None, *(a for a in known.values() if a.serves(transport.ranks))]:
            for index, (dtype, reduction, count) in enumerate(CASES):
                root = (transport.ranks - 1) * (index % 2) if operation.rooted else 0
                data = ExactData(operation, DTYPES[dtype], reduction, transport.ranks, root, count)
                found |= {
                    f"{operation.name} {chosen and chosen.name} {dtype} {in_place}": wrong
                    for in_place in (False, True)
                    if (wrong := _wrong(transport, data, chosen, in_place=in_place)) is not None
                }
    return found


def broken(transport: BenchTransport) -> list[int | None]:
    """Wrong elements under two algorithms that are wrong, out of place and in place."""
    return [
        _wrong(
            transport,
            ExactData(OPERATIONS[op], DTYPES["float32"], "sum", transport.ranks, 0, 1000),
            chosen,
            in_place=in_place,
        )
        for op, chosen in (("all_reduce", _deaf), ("broadcast", _silent))
        for in_place in (False, True)
    ]


def _wrong(transport, data, chosen, *, in_place):
    ready = trial(transport, data, chosen, (0,) * transport.ranks, in_place=in_place)
    if ready is None:
        return None
    if not data.operation.moves:
        ready.run()
    return wrong_elements(transport, ready, data, checks=2)


if __name__ == "__main__":
    from mpi4py import MPI

    from steptime.measure.mpi_transport import MpiTransport

    mpi = MpiTransport(MPI.COMM_WORLD)
    results = {"sweep": sweep(mpi), "broken": broken(mpi), "torch": "torch" in sys.modules}
    if mpi.rank == 0:
        print(json.dumps(results))
