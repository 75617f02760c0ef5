"""NCCL's measured tables against the model of its calls; fits the model's constants to them.

    python benchmarks/nccl_tables.py [--rows] [--fit] [--leave-out]

The tables are those of benchmarks/data/nccl_tables.csv, each row with its source. Told of each
system: the error of the bus bandwidth from 1 MiB up, predicted over measured, and of the rows that
no constant was fitted to. Bar: 15 % on the median over all fitted tables. ``--fit`` finds the
constants again that constants.toml calls fitted, deterministically: one after the other is moved as
long as the mean absolute logarithm of predicted over measured falls, every system having one vote.
``--leave-out`` fits without each system in turn and judges it by what the others say; a constant
that no other system tells stands at its start, which is a data sheet's or NCCL's own figure.
"""

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from steptime.arrays import Floats
from steptime.cluster import Nccl, cluster_named
from steptime.cluster.cluster import HostNetwork
from steptime.simulate.nccl import Network, choices, network_of, seconds_on_hosts
from steptime.simulate.nccl.constants import Constants, constants, with_values
from steptime.simulate.nccl.library import library_of

TABLES = Path(__file__).parent / "data" / "nccl_tables.csv"
FROM_BYTES = 1 << 20
BAR = 0.15

START = {
    "volta.call_s": 10e-6,
    "ampere.call_s": 10e-6,
    "hopper.call_s": 10e-6,
    "blackwell.call_s": 10e-6,
    "settle": 1.0,
    "last_receive": 0.5,
    "messages": 1.0,
    "volta.ring": 0.8,
    "ampere.ring": 240 / 232,
    "hopper.ring": 371 / 366,
    "hopper.nvls": 0.7,
    "blackwell.ring": 722 / 682,
    "blackwell.nvls": 0.7,
    "efa.hop_s": 30e-6,
    "efa.wire": 0.96,
    "efa_without_rdma_write.hop_s": 30e-6,
    "efa_without_rdma_write.wire": 0.96,
}
"""Where the fit begins: NCCL's figure for a link over the presets', and round guesses."""

MOVES = (0.3, 0.1, 0.03, 0.01, 0.003)
"""By what part a constant is moved, in rounds that become finer."""

SWEEPS = 3

V100_LINK = 25e9
V100_RINGS = {2: 1, 3: 2, 4: 4, 5: 2, 6: 2, 7: 4, 8: 6}
"""Rings over the NVLinks of the first GPUs of a DGX-1, counted on its cube mesh; the fifth GPU has
links to one of the four before it alone, and two rings pass through that one."""


@dataclass(frozen=True)
class System:
    """Where a table was measured: a preset's hosts, and what joined them, bytes/s a device.

    ``least_s``: below which nothing was measured, because Python called; of the table's own rows
    below FROM_BYTES, which are in no error.
    """

    preset: str
    network: HostNetwork = "infiniband"
    between: float = 0.0
    least_s: float = 0.0


SYSTEMS = {
    "8 A100": System("dgx-a100"),
    "2 to 8 A100": System("dgx-a100"),
    "2 to 8 V100": System(""),
    "8 H200": System("hgx-h200-pod", least_s=38.3e-6),
    "8 B200": System("hgx-b200-pod", least_s=47.2e-6),
    "8 B300": System("hgx-b200-pod"),
    "2 hosts of 8 A100, EFA 4 x 100 Gb": System(
        "dgx-a100", "efa_without_rdma_write", 4 * 12.5e9 / 8
    ),
    "2 hosts of 8 H100, EFA 3200 Gb": System("dgx-h100", "efa", 50e9),
    "4 hosts of 8 B200, EFA 8 x 400 Gb": System("hgx-b200-pod", "efa", 50e9, least_s=47.2e-6),
}


@dataclass(frozen=True, eq=False)
class Table:
    """Calls of one kind on one number of ranks of a system: ``nbytes`` and ``seconds``, (rows,).

    ``algorithm``: what NCCL was told to use, empty where it chose.
    """

    system: str
    collective: str
    algorithm: str
    ranks: int
    fitted: bool
    nbytes: Floats
    seconds: Floats


def tables(least: int = FROM_BYTES) -> list[Table]:
    """The measured tables, of vectors of ``least`` bytes or more."""
    grouped: dict[tuple[str, str, str, int, bool], list[tuple[float, float]]] = {}
    with TABLES.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if int(row["bytes"]) >= least:
                key = (
                    row["system"],
                    row["collective"],
                    row["algorithm"],
                    int(row["ranks"]),
                    row["use"] == "fit",
                )
                grouped.setdefault(key, []).append(
                    (float(row["bytes"]), float(row["time_us"]) * 1e-6)
                )
    return [Table(*key, *np.array(rows).T) for key, rows in grouped.items()]


@cache
def _bare(preset: str) -> Network:
    return network_of(replace(cluster_named(preset), nccl=None))


def network(table: Table, known: Constants) -> Network:
    """What the table was measured on."""
    system = SYSTEMS[table.system]
    if not system.preset:
        own = Network(host_devices=8, inside=V100_RINGS[table.ranks] * V100_LINK, between=np.inf)
        own = replace(own, inside_s=known["volta.path_s"].number)
        nccl = Nccl(generation="volta")
    else:
        own = _bare(system.preset)
        named = cluster_named_nccl(system.preset)
        nccl = replace(named, network=system.network)
    library = library_of(
        nccl,
        inside=own.inside,
        inside_s=own.inside_s,
        between=system.between or own.inside,
        between_s=known[f"{nccl.network}.path_s"].number,
        known=known,
    )
    return replace(own, library=library)


@cache
def cluster_named_nccl(preset: str) -> Nccl:
    nccl = cluster_named(preset).nccl
    if nccl is None:
        raise SystemExit(f"{preset} names no NCCL")
    return nccl


def predicted(table: Table, known: Constants) -> Floats:
    """The seconds of each row, shape (rows,)."""
    ranks = np.full(table.nbytes.size, table.ranks)
    hosts = -(-ranks // 8)
    of = network(table, known)
    if not table.algorithm:
        found = seconds_on_hosts(of, table.collective, table.nbytes, ranks, hosts)
        return np.maximum(found, SYSTEMS[table.system].least_s)
    each = choices(of, table.collective, table.nbytes, ranks, hosts)
    own = [seconds for name, seconds in each.items() if name.startswith(table.algorithm)]
    return np.asarray(np.min(own, axis=0))


def logarithms(table: Table, known: Constants) -> Floats:
    """Measured over predicted seconds, which is predicted over measured bandwidth: logarithms."""
    return np.asarray(np.log(table.seconds / predicted(table, known)))


def loss(chosen: Sequence[Table], known: Constants, only: str = "") -> float:
    """The mean absolute logarithm, each system and way with one vote.

    ``only``: of the systems of that generation or network, which alone a constant of its own moves.
    """
    of_system: dict[str, list[Floats]] = {}
    for table in chosen:
        if not only or only in parts(table.system):
            of_system.setdefault(table.system + table.algorithm, []).append(
                np.abs(logarithms(table, known))
            )
    return float(sum(np.concatenate(one).mean() for one in of_system.values()))


def parts(system: str) -> tuple[str, str]:
    """The generation and the network of a system, as constants are named."""
    one = SYSTEMS[system]
    return cluster_named_nccl(one.preset).generation if one.preset else "volta", one.network


def fit(chosen: Sequence[Table]) -> dict[str, float]:
    """The constants that make the loss least over some tables, from START."""
    values = dict(START)
    shipped = constants()
    for move in MOVES:
        for _ in range(SWEEPS):
            for name in values:
                _move(chosen, shipped, values, name, move)
    return values


def _move(
    chosen: Sequence[Table], shipped: Constants, values: dict[str, float], name: str, move: float
) -> None:
    """Move one constant up or down as long as the loss falls."""
    only = name.partition(".")[0] if "." in name else ""
    best = loss(chosen, with_values(shipped, values), only)
    for factor in (1 + move, 1 / (1 + move)):
        while True:
            moved = {**values, name: values[name] * factor}
            now = loss(chosen, with_values(shipped, moved), only)
            if now >= best - 1e-9:
                break
            values[name], best = moved[name], now


def errors(chosen: Iterable[Table], known: Constants) -> Floats:
    """Predicted over measured bus bandwidth, less one, of all rows: shape (rows,)."""
    return np.concatenate([np.expm1(logarithms(table, known)) for table in chosen])


def line(name: str, found: Floats) -> str:
    return (
        f"{name:44} {found.size:4}   {np.median(np.abs(found)):6.1%}   {np.abs(found).mean():6.1%}"
        f"   {found.mean():+7.1%}   {np.abs(found).max():6.0%}"
    )


HEAD = f"{'':44} rows   median     mean       bias      max"


def show(all_tables: Sequence[Table], known: Constants) -> float:
    """Print the errors by system, and return the median of all fitted rows."""
    print(HEAD)
    fitted = [one for one in all_tables if one.fitted]
    for system in SYSTEMS:
        print(line(system, errors([one for one in fitted if one.system == system], known)))
    found = errors(fitted, known)
    print(line("all of these", found))
    print("\nrows that no constant is fitted to")
    checks = [one for one in all_tables if not one.fitted]
    for system, kind in dict.fromkeys((one.system, one.collective) for one in checks):
        own = [one for one in checks if (one.system, one.collective) == (system, kind)]
        print(line(f"{system}, {kind}", errors(own, known)))
    return float(np.median(np.abs(found)))


def show_rows(all_tables: Sequence[Table], known: Constants) -> None:
    for table in all_tables:
        ranks = np.full(table.nbytes.size, table.ranks)
        each = choices(network(table, known), table.collective, table.nbytes, ranks, -(-ranks // 8))
        names = np.array(list(each))[np.argmin(np.stack(list(each.values())), axis=0)]
        found = np.expm1(logarithms(table, known))
        for nbytes, seconds, error, name in zip(
            table.nbytes, table.seconds, found, names, strict=True
        ):
            print(
                f"{table.system:36} {table.collective:14} {table.ranks:3} "
                f"{nbytes / 2**20:9.4g} MiB {seconds * 1e6:10.1f} us {error:+6.0%}  "
                f"{table.algorithm or name}"
            )


def show_left_out(all_tables: Sequence[Table]) -> None:
    print("\neach system by constants that are fitted without it\n" + HEAD)
    fitted = [one for one in all_tables if one.fitted]
    found = []
    for system in SYSTEMS:
        own = [one for one in fitted if one.system == system]
        values = fit([one for one in fitted if one.system != system])
        found.append(errors(own, with_values(constants(), values)))
        print(line(system, found[-1]))
    print(line("all of these, each left out", np.concatenate(found)))


def show_fit(values: Mapping[str, float]) -> None:
    print("\nfitted constants, and those shipped")
    for name, value in values.items():
        print(f"{name:32} {value:12.4g}  {constants()[name].number:12.4g}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", action="store_true", help="tell every row")
    parser.add_argument("--fit", action="store_true", help="fit the constants anew")
    parser.add_argument("--leave-out", action="store_true", help="fit without each system")
    options = parser.parse_args()
    measured = tables()
    if options.rows:
        show_rows(measured, constants())
    median = show(measured, constants())
    if options.fit:
        show_fit(fit([one for one in measured if one.fitted]))
    if options.leave_out:
        show_left_out(measured)
    print(f"\nbar: {BAR:.0%} on the median; it is {median:.1%}")
    return 0 if median <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
