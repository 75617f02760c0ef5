"""The space of a plan: every layout that a step can have, and no other."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.plan.space import Space, layouts_in
from steptime.predict.layouts import RECOMPUTES, SCHEDULES, Layouts, ranks_of, spec_of
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import Transformer, model_named
from steptime.workloads.step import step_of

SMALL = Transformer(name="small", layers=4, hidden=16, heads=4, context=32, vocabulary=64)
MIXED = Transformer(
    name="mixed", layers=6, hidden=16, heads=4, context=32, vocabulary=64, experts=4, top_k=2
)
COLUMNS = ("tensor", "context", "expert", "data", "pipeline", "interleave", "micro_batches", "rows")


def told(rows: Layouts) -> set[tuple[Any, ...]]:
    return {
        (
            *(int(row[name]) for name in COLUMNS),
            SCHEDULES[int(row["schedule"])],
            int(row["zero"]),
            bool(row["sequence_parallel"]),
            RECOMPUTES[int(row["recompute"])],
        )
        for row in rows
    }


def brute_force(model: Transformer, ranks: int, batch: int, tokens: int) -> set[tuple[Any, ...]]:
    """What the generator of steps takes of all that could be written down.

    But for what no plan needs: gpipe, ZeRO where nobody has the same parameters, and the names of a
    schedule where it has no stages.
    """
    found = set()
    sizes = [n for n in range(1, ranks + 1) if ranks % n == 0]
    for t, c, e, p in product(sizes, repeat=4):
        if ranks % (t * c * e * p):
            continue
        d = ranks // (t * c * e * p)
        for v, rows, schedule, zero, sp in product(
            range(1, 9), range(1, batch + 1), ("1f1b", "interleaved", "zb-h1"), range(4), (0, 1)
        ):
            if batch % (d * e * rows):
                continue
            if (p == 1) and (v > 1 or schedule != "1f1b"):
                continue
            if (v > 1) != (schedule == "interleaved") or (zero and d * c == 1):
                continue
            if sp and t == 1:
                continue
            count = batch // (d * e * rows)
            try:
                Hybrid(
                    model,
                    mesh=Mesh(tensor=t, context=c, expert=e, data=d, pipeline=p),
                    micro_batches=count,
                    schedule=schedule,
                    interleave=v,
                    rows=rows,
                    tokens=tokens,
                    strategy=("replicated", "sharded", "zero2", "zero3")[zero],
                    sequence_parallel=bool(sp),
                )
            except UsageError:
                continue
            for recompute in RECOMPUTES:
                found.add((t, c, e, d, p, v, count, rows, schedule, zero, bool(sp), recompute))
    return found


@pytest.mark.parametrize(
    ("model", "ranks", "batch", "tokens"),
    [
        (SMALL, 1, 2, 32),
        (SMALL, 8, 8, 16),
        (SMALL, 12, 12, 24),
        (MIXED, 8, 8, 32),
        (MIXED, 4, 6, 2),
    ],
)
def test_every_layout_is_there_once_and_no_other(
    model: Transformer, ranks: int, batch: int, tokens: int
) -> None:
    rows = layouts_in(Space(model=model, ranks=ranks, batch=batch, tokens=tokens))
    assert told(rows) == brute_force(model, ranks, batch, tokens)
    assert len(told(rows)) == rows.size


def test_what_is_found_on_the_ranks_is_a_step_of_them() -> None:
    space = Space(model=SMALL, ranks=8, batch=8, tokens=16)
    rows = layouts_in(space)
    assert set(ranks_of(rows).tolist()) == {8}
    for row in rows[:: rows.size // 12]:
        step = step_of(spec_of("small", row), model=SMALL)
        assert step.program.ranks == 8
        assert step.spec.batch == 8


def test_layers_divide_with_embedding_and_head_too() -> None:
    model = model_named("llama3.1-405B")
    rows = layouts_in(
        Space(model=model, ranks=1024, batch=1024, tokens=8192, fixed={"tensor": 8, "context": 1})
    )
    shapes = {(int(p), int(v)) for p, v in rows[["pipeline", "interleave"]]}
    assert {(16, 1), (16, 8), (2, 63), (32, 2), (64, 2)} <= shapes
    assert (128, 1) not in shapes  # the first stage would have no layer


def test_fixed_columns_keep_what_is_so_and_nothing_else() -> None:
    every = layouts_in(Space(model=SMALL, ranks=8, batch=8, tokens=16))
    for name, value in (("tensor", 2), ("rows", 2), ("data", 4), ("micro_batches", 4)):
        some = layouts_in(Space(model=SMALL, ranks=8, batch=8, tokens=16, fixed={name: value}))
        assert told(some) == told(every[every[name] == value])
    full = Space(model=SMALL, ranks=8, batch=8, tokens=16, fixed={"recompute": "full"})
    assert np.all(layouts_in(full)["recompute"] == RECOMPUTES.index("full"))
    zero = layouts_in(Space(model=SMALL, ranks=8, batch=8, tokens=16, fixed={"zero": 1}))
    several = zero["data"] * zero["context"] > 1  # of one replica ZeRO changes nothing
    assert told(zero[several]) == told(every[every["zero"] == 1])
    assert np.all(zero["zero"] == 1)
    unshared = Space(model=SMALL, ranks=8, batch=8, tokens=16, fixed={"sequence_parallel": False})
    assert told(layouts_in(unshared)) == told(every[~every["sequence_parallel"]])


def test_gpipe_is_there_where_it_is_asked_for() -> None:
    space = Space(model=SMALL, ranks=8, batch=8, tokens=16, fixed={"schedule": "gpipe"})
    rows = layouts_in(space)
    assert {SCHEDULES[n] for n in rows["schedule"]} == {"gpipe"}
    assert rows["pipeline"].min() > 1


@pytest.mark.parametrize(
    ("fixed", "sentence"),
    [
        ({"tensor": 3}, "3 tensor ranks do not divide the 4 heads of small.*2 and 4"),
        ({"pipeline": 7}, "7 pipeline stages do not divide the 4 layers of small.* are 4"),
        ({"context": 3}, "3 context ranks .* 16 tokens .* are 2 and 4"),
        ({"expert": 2}, "2 expert ranks do not divide the 1 experts"),
        ({"data": 3}, "data 3 are 3 ranks, which do not divide the 8.* are 6 and 9"),
        ({"rows": 3}, "8 rows does not divide among 1 replicas of 3 rows each.* is 9"),
        ({"schedule": "dualpipe"}, "there is no pipeline schedule 'dualpipe': choose"),
        ({"zero": 3, "pipeline": 2}, "no layout of small .* --zero 3 .*leave one of them out"),
    ],
)
def test_what_cannot_be_is_refused_with_the_nearest(fixed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        layouts_in(Space(model=SMALL, ranks=8, batch=8, tokens=16, fixed=fixed))


def test_gradients_are_sharded_in_pipelines_where_the_software_does() -> None:
    space = Space(model=SMALL, ranks=8, batch=8, tokens=16, shards_in_pipelines=True)
    rows = layouts_in(space)
    assert set(rows["zero"][rows["pipeline"] > 1].tolist()) == {0, 1, 2, 3}


def test_a_batch_that_no_replicas_share_is_refused() -> None:
    with pytest.raises(UsageError, match="no layout of small divides a batch of 3 rows among 14"):
        layouts_in(Space(model=SMALL, ranks=14, batch=3, tokens=15))


def test_more_layouts_than_memory_holds_are_refused() -> None:
    model = model_named("llama3.1-405B")
    with pytest.raises(UsageError, match=r"more than .* layouts: fix some of what is searched"):
        layouts_in(Space(model=model, ranks=5040, batch=963761198400, tokens=10080))
