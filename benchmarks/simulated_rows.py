"""How far simulated steps are from measured ones: their kernels alone, and as software drives them.

    python benchmarks/simulated_rows.py [--rows 24] [--most-ranks 512]

Of each source of the shipped rows, ``--rows`` timed ones at even distances, on the shipped cluster
of their GPUs, are simulated twice at fidelity ``collective``: plainly, and with the row's software.
Beside them is the estimate of ``plan``. Given: the layout. Calibrated: devices and software, on
rows among which these are. Left out: rows that ran on other networks, or in several ways.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

import steptime as st
from steptime.cluster import Cluster, cluster_named
from steptime.errors import UsageError
from steptime.plan.recipes import recipe_of
from steptime.plan.validate import Judged, validate
from steptime.predict.driven import usual_strategy
from steptime.predict.layouts import ranks_of, spec_of
from steptime.simulate.nccl import network_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--most-ranks", type=int, default=512)
    asked = parser.parse_args()
    of_source: dict[str, list[Judged]] = defaultdict(list)
    for one in validate().judged:
        if can_be_simulated(one, asked.most_ranks):
            of_source[recipe_of(one.row.source).title].append(one)
    print(f"{'off by, in the mean':<34}{'rows':>6}{'kernels':>9}{'driven':>9}{'estimate':>10}")
    everyone = []
    for source, members in sorted(of_source.items()):
        places = np.linspace(0, len(members) - 1, min(asked.rows, len(members)))
        found = list(errors([members[int(at)] for at in places]))
        everyone += found
        if found:
            print(line(source, found), flush=True)
    print(line("all", everyone))
    return 0


def line(source: str, found: Sequence[tuple[float, float, float]]) -> str:
    """A row of the table."""
    means = np.abs(np.array(found)).mean(axis=0)
    plain, driven, estimated = (f"{mean:.0%}" for mean in means)
    return f"{source:<34}{len(found):>6}{plain:>9}{driven:>9}{estimated:>10}"


def can_be_simulated(one: Judged, most_ranks: int) -> bool:
    """Whether a row ran in one way, on what a shipped cluster is, and counts for mean errors."""
    case = one.case
    if not one.counts or len(case.layouts) != 1 or ranks_of(case.layouts)[0] > most_ranks:
        return False
    there, machine = cluster_named(case.machine.name), case.machine
    rates = [(of.inside, of.between) for of in (network_of(there), machine.network)]
    return there.device == machine.device and rates[0] == rates[1]


def errors(members: Sequence[Judged]) -> Iterator[tuple[float, float, float]]:
    """The relative errors of each row: of its kernels alone, as it is driven, and estimated."""
    for one in members:
        cluster = cluster_named(one.case.machine.name)
        try:
            plain, driven = (step_s(one, cluster, software) for software in (False, True))
        except UsageError as refused:
            print(f"  line {one.row.line} of {one.row.source} is left out: {refused}")
            continue
        measured = one.row.step_s or 1.0
        yield plain / measured - 1, driven / measured - 1, one.error or 0.0


def step_s(one: Judged, cluster: Cluster, software: bool) -> float:
    """The simulated step of a row, in seconds."""
    case = one.case
    spec = spec_of("", case.layouts[0])
    strategy = usual_strategy(case.machine.software, spec.zero or 0)
    spec = replace(spec, zero=None, strategy=strategy)
    named = {name: getattr(spec, name) for name in spec.given()}
    by = {"software": case.machine.software.name} if software else {}
    return st.simulate(case.model, cluster, fidelity="collective", **named, **by).step_s


if __name__ == "__main__":
    raise SystemExit(main())
