"""DLRM with its tables on different ranks: every byte by hand."""

import pytest

from steptime.cluster import cluster_named
from steptime.errors import UsageError
from steptime.program import Collective, Compute, check, match_calls
from steptime.simulate.step import simulate
from steptime.timeline import Phase
from steptime.workloads.compat import compat
from steptime.workloads.models import model_named
from steptime.workloads.models.families.dlrm import TableNetwork, dlrm
from steptime.workloads.tables import tables

MODEL = dlrm("dlrm")
ELEMENT = 4
BOTTOM, TOP = 49_536, 728_065


def collectives(program, rank=0):
    ops = program.lists[program.class_of[rank]]
    return [op for op in ops if isinstance(op, Collective)]


def named(program):
    return {op.name: op for op in program.lists[0]}


def test_the_model_says_what_its_tables_are():
    model = model_named("dlrm")
    assert isinstance(model, TableNetwork)
    assert (model.tables, model.rows, model.width) == (4, 80_000, 128)
    assert model.units[0].parameters == model.tables * model.rows * model.width


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
def test_the_calls_are_two_exchanges_and_two_sums(ranks):
    made = [
        (op.name, op.kind, op.nbytes // ELEMENT)
        for op in collectives(tables(MODEL, ranks=ranks, batch=2048))
    ]
    exchanged = 2048 * 4 * 128 // ranks  # what a rank has looked up: its columns of all samples
    assert made == [
        ("exchange embeddings", "all_to_all", exchanged),
        ("all_reduce top", "all_reduce", TOP),
        ("exchange gradients", "all_to_all", exchanged),
        ("all_reduce bottom", "all_reduce", BOTTOM),
    ]


def test_the_original_is_right_for_as_many_ranks_as_tables_alone():
    for ranks, factor in ((2, 2), (4, 1), (8, 0.5), (16, 0.25)):
        (ours, *_), (theirs, *_) = (
            [op.nbytes for op in collectives(program) if op.kind == "all_to_all"]
            for program in (tables(MODEL, ranks=ranks, batch=2048), compat("dlrm", ranks))
        )
        assert ours == factor * theirs


def test_the_exchanges_hide_behind_the_bottom_mlp():
    program = tables(MODEL, ranks=4, batch=2048)
    ops, of = program.lists[0], named(program)
    order = [op.name for op in ops]

    def waits(name):
        return [ops[place].name for place in of[name].after]

    assert waits("exchange embeddings") == ["forward tables"]
    assert waits("forward bottom.0") == []
    assert waits("forward interaction") == ["exchange embeddings"]
    assert waits("exchange gradients") == ["backward interaction"]
    assert order.index("exchange gradients") < order.index("backward bottom.2")
    assert waits("backward tables") == ["exchange gradients"]
    assert waits("all_reduce top") == ["backward top.0"]
    assert waits("all_reduce bottom") == ["backward bottom.0"]


def test_computing_is_divided_by_the_ranks():
    for ranks in (1, 4, 16):
        program = tables(MODEL, ranks=ranks, batch=2048)
        computes = [op for op in program.lists[0] if isinstance(op, Compute)]
        flops = sum(op.flops for op in computes)
        assert flops == pytest.approx(2048 / ranks * MODEL.flops_per_token())
        for direction in ("forward", "backward"):  # rows are read and copied, or written
            moved = named(program)[f"{direction} tables"].nbytes * ranks
            assert moved == 2 * 2048 * 4 * 128 * ELEMENT
        met = named(program)["update tables"]
        assert met.nbytes * ranks == 2048 * 4 * 128 * 12
        assert met.phase is Phase.UPDATE


@pytest.mark.parametrize(("held", "ranks"), [(26, 3), (26, 8), (4, 3), (5, 4), (1, 100), (4, 512)])
def test_a_remainder_is_spread_and_shown(held, ranks):
    model = dlrm("dlrm", tables=held)
    program = tables(model, ranks=ranks, batch=ranks)
    check(program)
    match_calls(program)
    columns, per_row = held * 128, ranks * 12
    updates = [
        next(op for op in program.lists[kind] if op.name == "update tables")
        for kind in program.class_of
    ]
    of_ranks = [int(op.nbytes) // per_row for op in updates]
    assert sum(of_ranks) == columns
    assert of_ranks == sorted(of_ranks, reverse=True)
    assert of_ranks[0] - of_ranks[-1] == (columns % ranks > 0)
    exchanged = collectives(program)[0].nbytes // ELEMENT // ranks
    assert exchanged == of_ranks[0]  # of one sample, to one rank
    shown = f"({columns} columns of tables: {of_ranks[0]} on {columns % ranks} rank"
    assert (shown in program.name) == (columns % ranks > 0)


def test_the_name_says_what_became_of_the_remainder():
    assert tables(MODEL, ranks=8, batch=8).name == "dlrm data 8"
    assert tables(MODEL, ranks=3, batch=3).name == (
        "dlrm data 3 (512 columns of tables: 171 on 2 ranks, 170 on 1, exchanged as 513)"
    )


@pytest.mark.parametrize("strategy", ["replicated", "sharded", "overlapped", "overlapped_sharded"])
def test_everybody_meets_however_many_there_are(strategy):
    for ranks in (1, 2, 3, 4, 7, 16, 100):
        for accumulate in (1, 3):
            program = tables(
                MODEL,
                ranks=ranks,
                batch=2 * ranks * accumulate,
                accumulate=accumulate,
                strategy=strategy,
            )
            check(program)
            match_calls(program)
            kinds = [op.kind for op in collectives(program)]
            assert kinds.count("all_to_all") == (2 * accumulate if ranks > 1 else 0)
            assert (ranks == 1) == (not kinds)


def test_a_strategy_without_overlap_sums_both_mlps_at_once():
    program = tables(MODEL, ranks=4, batch=4, strategy="replicated")
    (total,) = [op for op in collectives(program) if op.kind == "all_reduce"]
    assert total.nbytes == ELEMENT * (BOTTOM + TOP)
    sharded = tables(MODEL, ranks=4, batch=4, strategy="sharded")
    padded = -(-(BOTTOM + TOP) // 4) * 4
    moved = [(op.kind, op.nbytes) for op in collectives(sharded) if op.kind != "all_to_all"]
    assert moved == [("reduce_scatter", ELEMENT * padded), ("all_gather", ELEMENT * padded)]
    assert sharded.lists[0][-1].name == "parameters"


def test_what_is_gathered_is_waited_for_by_the_mlp_that_needs_it():
    program = tables(MODEL, ranks=4, batch=4, strategy="overlapped_sharded")
    ops, of = program.lists[0], named(program)
    for name in ("bottom", "top"):
        waits = [ops[place].name for place in of[f"forward {name}.0"].after if place < 0]
        assert waits == [f"all_gather {name}"]


def test_more_ranks_are_simulated_faster():
    cluster = cluster_named("dgx-h100")
    steps = [
        float(simulate(tables(MODEL, ranks=n, batch=1 << 20), cluster).step_s[-1]) for n in (1, 8)
    ]
    assert steps[1] < steps[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ranks": 3}, "batch of 2048 does not divide among 3 ranks.*is 2046 or 2049"),
        ({"ranks": 513, "batch": 513}, "513 ranks are more than the 512 columns.*512 or fewer"),
        ({"ranks": 0}, "number of ranks is 0"),
        ({"batch": -1}, "number of samples is -1"),
        ({"strategy": "sliced"}, "sliced is of ranks that hold the same layers"),
        ({"reduce_dtype": "int8"}, "no dtype 'int8'"),
    ],
)
def test_what_cannot_be_shared_is_refused(wrong, message):
    asked = {"ranks": 4, "batch": 2048} | wrong
    with pytest.raises(UsageError, match=message):
        tables(MODEL, **asked)
