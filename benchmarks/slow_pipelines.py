"""How many of the sweep's pipelines were slow by accident, and how well the others are ranked.

    python benchmarks/slow_pipelines.py

Some measured pipelines of the Ultra-Scale Playbook took about a second longer for each micro-batch
than is predicted, whatever the micro-batch. Runs that differ in ZeRO's stage alone tell whether
that is of the layout; the share of such runs by hosts, whether it is of a host.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from steptime.plan.metrics import spearman
from steptime.plan.validate import Judged, validate

SOURCE = "ultrascale-playbook"
SLOWER_S = 0.8, 1.6
TIMES = 1.5


def slow(one: Judged) -> bool:
    """Whether a pipeline took about a second longer for each micro-batch."""
    row = one.row
    if not row.step_s or (row.pp or 1) == 1:
        return False
    later = (row.step_s - one.predicted.step_s) / int(one.case.layouts[0]["micro_batches"])
    return SLOWER_S[0] < later < SLOWER_S[1] and row.step_s > TIMES * one.predicted.step_s


def twins(rows: Iterable[Judged]) -> list[list[Judged]]:
    """Runs in pairs that differ in ZeRO's stage alone."""
    alike = defaultdict(list)
    for one in rows:
        row = one.row
        key = row.model, row.n_gpus, row.tp, row.pp, row.dp, row.micro_batch
        alike[key].append(one)
    return [pair for pair in alike.values() if len({one.row.zero_fsdp for one in pair}) == 2]


def rank(rows: Iterable[Judged]) -> float:
    """The median over cells (model, GPUs) of Spearman's coefficient of throughputs."""
    cells = defaultdict(list)
    for one in rows:
        cells[one.row.model, one.row.n_gpus].append(one)
    found = [_spearman(several) for several in cells.values()]
    return float(np.median([one for one in found if one is not None]))


def _spearman(rows: Sequence[Judged]) -> float | None:
    predicted = np.array([1 / one.predicted.step_s for one in rows])
    return spearman(predicted, np.array([1 / (one.row.step_s or np.inf) for one in rows]))


def main() -> None:
    """Print the counts and the ranks."""
    rows = [one for one in validate().judged if one.row.step_s and SOURCE in one.row.source]
    pipelines = [one for one in rows if (one.row.pp or 1) > 1]
    accidents = [one for one in pipelines if slow(one)]
    pairs = twins(pipelines)
    either = Counter(sum(map(slow, pair)) for pair in pairs)
    least, most = SLOWER_S
    print(
        f"{len(accidents)} of {len(pipelines)} pipelines: {least} to {most} s a micro-batch longer"
    )
    one_did, both_did = either[1], either[2]
    print(
        f"of {len(pairs)} pairs that differ in ZeRO alone one did in {one_did}, both in {both_did}"
    )
    for hosts in sorted({int(one.row.n_gpus or 0) // 8 for one in pipelines}):
        here = [one for one in pipelines if int(one.row.n_gpus or 0) // 8 == hosts]
        print(f"on {hosts:>2} hosts {sum(map(slow, here)):>3} of {len(here):>3}")
    others = [one for one in rows if not slow(one)]
    print(f"rank in a cell, median: {rank(rows):.2f} of all, {rank(others):.2f} of the others")


if __name__ == "__main__":
    main()
