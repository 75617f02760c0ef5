"""Train every layout that so many CPU ranks allow, and hold it against one process.

    python benchmarks/every_layout.py [--ranks 4] [--model gpt2|llama-moe] [--sample N] [--seed 0]
        [--backend gloo]

Every product of axes, with each schedule of a pipeline, each strategy or ZeRO stage of its
replicas, and with and without sequence parallelism; what is recomputed changes from one to the
next. 20 steps in fp32 of a tiny model. The judge is that of the tests (``layouts.py``): losses and
gathered parameters within 1e-5 of one process on the whole batch, and each rank's calls of the last
step those of its Program, one by one. ``--sample`` draws so many layouts. Prints why layouts are
refused, and each that is trained; exit code 1 where one differs.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle, groupby, product
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from layouts import (
    LLAMA,
    MODEL,
    ROWS,
    Case,
    alone,
    case,
    check,
    hybrid_of,
    job_of,
    shared,
    write_text,
)

import steptime as st
from steptime.errors import SteptimeError, UsageError
from steptime.workloads.pipelines import schedule_named, schedule_names
from steptime.workloads.sync import strategies_of_many_axes

MODELS = {"gpt2": MODEL, "llama-moe": LLAMA}
AXES = ("tensor", "pipeline", "context", "expert", "data")
RECOMPUTE = ("none", "selective", "full")


def layouts(ranks: int, *, experts: bool) -> Iterator[Case]:
    """Every way for ``ranks`` ranks to share a model."""
    recompute = cycle(RECOMPUTE)
    sizes = [n for n in range(1, ranks + 1) if ranks % n == 0]
    for mesh in product(sizes, sizes, sizes, sizes if experts else [1]):
        if ranks % prod(mesh):
            continue
        axes = dict(zip(AXES, (*mesh, ranks // prod(mesh)), strict=True))
        strategies = ["replicated"]
        if axes["data"] * axes["context"] * axes["expert"] > 1:
            strategies = [*strategies_of_many_axes(), "zero2", "zero3"]
        ways = schedule_names() if axes["pipeline"] > 1 else ("",)
        for strategy, schedule, sequence in product(strategies, ways, (False, True)):
            if sequence and axes["tensor"] == 1:
                continue
            how: dict[str, Any] = {"strategy": strategy, "recompute": next(recompute)}
            if sequence:
                how["sequence_parallel"] = True
            if schedule:
                how |= {"schedule": schedule, "interleave": schedule_named(schedule).fewest_chunks}
            replicas = axes["data"] * axes["expert"]
            how["micro_batches"] = min(ROWS // replicas, 2 * axes["pipeline"])
            yield case(**axes, **how)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--model", default="gpt2", choices=MODELS)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="gloo", choices=("gloo", "steptime"))
    asked = parser.parse_args()
    begin = perf_counter()
    with tempfile.TemporaryDirectory(prefix="steptime-") as temporary:
        folder = Path(temporary)
        write_text(folder)
        wanted = list(layouts(asked.ranks, experts=asked.model == "llama-moe"))
        able, refused = [], Counter[str]()
        for one in wanted:
            try:
                _ = hybrid_of(job_of(folder, model_for(asked.model, one)), one).program
                able.append(one)
            except UsageError as error:
                refused[str(error)] += 1
        for reason, times in refused.most_common():
            print(f"refused  {times} layouts: {reason}")
        if asked.sample:
            drawn = np.random.default_rng(asked.seed).choice(len(able), asked.sample, replace=False)
            able = [able[n] for n in sorted(drawn)]
        wrong = [one for one in judged(asked, folder, able) if one]
    print(
        f"{asked.model} on {asked.ranks} ranks, {asked.backend}: {len(wanted)} layouts, "
        f"{refused.total()} refused, {len(able)} trained, {len(wrong)} differ; "
        f"{(perf_counter() - begin) / 60:.0f} min"
    )
    return 1 if wrong else 0


def model_for(name: str, one: Case) -> Any:
    """The tiny model, of more layers where a pipeline has more pieces than it has."""
    pieces = one.mesh.pipeline * one.how.get("interleave", 1)
    return replace(MODELS[name], layers=max(MODELS[name].layers, pieces))


def judged(asked: argparse.Namespace, folder: Path, able: list[Case]) -> Iterator[str]:
    """What is wrong with each layout, empty where nothing is; those of one mesh in one world."""
    known: dict[int, Any] = {}
    for (_, layers), group in groupby(
        able, key=lambda one: (str(one.mesh), model_for(asked.model, one).layers)
    ):
        cases = list(group)
        model = model_for(asked.model, cases[0])
        if layers not in known:
            (known[layers],) = st.run(partial(alone, folder, model), ranks=1)
        yield from verdicts(asked, partial(shared, folder, model, cases), cases, known[layers])


def verdicts(asked: argparse.Namespace, train: Any, cases: list[Case], known: Any) -> Iterator[str]:
    try:
        found = st.run(train, ranks=asked.ranks, backend=asked.backend, timeout="20min")
    except (AssertionError, SteptimeError) as error:
        print(f"failed   {', '.join(map(str, cases))}: {error}", flush=True)
        yield str(error)
        return
    for place, one in enumerate(cases):
        wrong = ""
        for results in found:
            try:
                check(results[place], *known, str(one))
            except AssertionError as error:
                wrong = str(error)
        print(f"{'differs' if wrong else 'same'}   {one} {wrong}", flush=True)
        yield wrong


if __name__ == "__main__":
    sys.exit(main())
