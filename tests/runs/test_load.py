"""What others did on the cores meanwhile."""

import os
from pathlib import Path

import pytest

from steptime.runs.load import CpuTime, cpu_time, load_by_others

BOTH = frozenset({0, 1})


def spent(own: float, busy: float | None, cores: frozenset[int] = BOTH) -> CpuTime:
    stolen = None if busy is None else 0.5
    return CpuTime(cores=cores, wall=2.0, own=own, busy=busy, stolen=stolen)


def test_what_ranks_of_a_host_took_themselves_is_no_load_by_others():
    ranks = [("a", spent(1.5, 3.9)), ("a", spent(1.4, 3.9))]
    assert load_by_others(ranks) == pytest.approx((0.5, 0.25))


def test_ranks_with_cores_of_their_own_are_counted_apart():
    ranks = [
        ("a", spent(1.0, 1.6, frozenset({0}))),
        ("a", spent(1.0, 1.4, frozenset({1}))),
    ]
    assert load_by_others(ranks) == pytest.approx((0.5, 0.5))


def test_the_busiest_host_counts():
    assert load_by_others([("a", spent(1, 1)), ("b", spent(1, 3))]) == pytest.approx((1.0, 0.25))


def test_where_the_system_does_not_tell_nothing_is_said(tmp_path: Path):
    assert load_by_others([("a", spent(1, None))]) is None
    assert cpu_time(tmp_path / "none").busy is None


def test_only_the_cores_of_this_process_are_read(tmp_path: Path):
    own = sorted(os.sched_getaffinity(0))
    other = max(own) + 1
    ticks = os.sysconf("SC_CLK_TCK")
    rows = [f"cpu{core} {ticks} 0 0 {9 * ticks} 0 0 0 {ticks} 0 0" for core in [*own, other]]
    stat = tmp_path / "stat"
    stat.write_text("\n".join(["cpu 99 99 99 99 99 99 99 99 0 0", *rows, "intr 5"]))
    found = cpu_time(stat)
    assert (found.busy, found.stolen) == (len(own), len(own))
