"""The rebuilt steps of spcl/DNN-cpp-proxies against a description of its calls by rank numbers."""

from collections import Counter
from functools import cache

import pytest

from steptime.cluster import cluster_named
from steptime.errors import UsageError
from steptime.program import Collective, Compute, Recv, Send, check, match_calls
from steptime.simulate.step import simulate
from steptime.workloads.compat import compat, compat_named, compat_names
from steptime.workloads.compat.bert_large import BERT_LARGE
from steptime.workloads.compat.gpt2_large import GPT2_LARGE
from workloads import originals_oracle as oracle

PER_RANK = ("all_gather", "reduce_scatter", "all_to_all")

SMALL = [  # all that run on 4 and 8 ranks, with their defaults
    *((name, ranks, {}) for ranks in (4, 8) for name in ("gpt2_large", "bert_large")),
    *((name, ranks, {}) for ranks in (4, 8) for name in ("cosmoflow", "dlrm", "resnet152")),
    *((name, ranks, {}) for ranks in (4, 8) for name in ("resnet50", "resnet50_ring")),
    ("gpt2_large", 4, {"layers": 6, "stages": 2, "micro_batches": 1}),
    ("gpt3", 8, {"stages": 2, "scale": 2}),
    ("gpt3", 8, {"stages": 2}),
    ("gpt3_one_pipe_step", 8, {"stages": 2}),
]
LARGE = [
    ("gpt2_large", 48, {"layers": 32, "stages": 16, "micro_batches": 3}),
    ("bert_large", 24, {"stages": 8}),
    ("cosmoflow", 20, {}),
    ("dlrm", 3, {}),
    ("dlrm", 13, {}),
    ("resnet152", 5, {}),
    ("resnet152_scal", 256, {}),
    ("resnet152_scal", 512, {}),
    ("resnet50_ring", 7, {}),
    ("gpt3", 48, {"stages": 4, "scale": 1}),
    ("gpt3_moe", 32, {"stages": 2, "scale": 1}),
    ("gpt3_moe", 144, {"stages": 3, "scale": 2}),
    ("gpt3_one_pipe_step", 48, {"stages": 6}),
    ("gpt3_moe_one_pipe_step", 128, {"stages": 4}),
]


@cache
def groups_of(program, axes):
    rows = program.groups(axes)
    return {rank: tuple(row) for row in rows.tolist() for rank in row}


@cache
def peers_of(program, axis, by):
    return program.peer(axis, by).tolist()


def calls(program, rank):
    """What a rank does, in the words of the oracle."""
    made = []
    for op in program.lists[program.class_of[rank]]:
        if isinstance(op, Compute):
            made.append(("sleep", round(op.seconds * 1e6)))
        elif isinstance(op, Collective):
            group = groups_of(program, tuple(axis for axis in program.axes if axis in op.group))
            share = 4 * (len(group[rank]) if op.kind in PER_RANK else 1)
            made.append((op.kind, group[rank], op.nbytes // share))
        elif isinstance(op, Send | Recv):
            kind = "send" if isinstance(op, Send) else "recv"
            made.append((kind, (peers_of(program, op.axis, op.by)[rank],), op.nbytes // 4))
        else:
            made.append(("wait", len(op.after)))
    return made


@pytest.mark.parametrize(("name", "ranks", "parameters"), SMALL + LARGE)
def test_every_rank_calls_what_the_original_calls_in_its_order(name, ranks, parameters):
    program = compat(name, ranks, **parameters)
    check(program)
    match_calls(program)
    describe = getattr(oracle, name)
    for rank in range(0, ranks, max(1, ranks // 64)):
        assert calls(program, rank) == describe(rank, ranks, **parameters), rank


def test_each_original_is_described_by_the_oracle_and_by_itself():
    assert set(compat_names()) == {name for name, _, _ in SMALL + LARGE}
    for name in compat_names():
        proxy = compat_named(name)
        assert proxy.name == name
        assert proxy.doc
        assert all(defect.endswith((".", ").")) for defect in proxy.defects)
        assert len(set(proxy.defects)) == len(proxy.defects)


def test_the_originals_have_the_parameters_that_they_print():
    assert GPT2_LARGE.parameters(48) == 1_074_488_320
    assert BERT_LARGE.parameters(24) == 367_480_636


def sent(program, rank):
    """Bytes that a rank sends to others in a ring, and how many calls it makes, by kind."""
    volume, number = Counter(), Counter()
    for kind, *rest in calls(program, rank):
        if kind in ("sleep", "wait"):
            continue
        ranks, elements = rest
        others = len(ranks) - 1
        factor = {"all_reduce": 2 * others / len(ranks), "send": 1, "recv": 0}.get(kind, others)
        volume[kind] += factor * elements * 4
        number[kind] += 1
    return volume, number


# Counted with an interposed MPI layer in runs of the originals: bytes sent by a rank in a ring.
COUNTED = [
    ("gpt2_large", 4, 0, {"send": 25_886_720, "all_reduce": 0}),
    ("gpt2_large", 4, 1, {"send": 51_773_440, "all_reduce": 0}),
    ("gpt2_large", 8, 0, {"send": 25_886_720, "all_reduce": 1_207_075_840}),
    ("gpt2_large", 8, 6, {"send": 51_773_440, "all_reduce": 944_517_120}),
    ("gpt2_large", 8, 7, {"send": 25_886_720, "all_reduce": 1_201_843_200}),
    ("bert_large", 8, 0, {"send": 33_587_200, "all_reduce": 429_441_024}),
    ("bert_large", 8, 1, {"send": 67_174_400, "all_reduce": 302_309_376}),
    ("bert_large", 8, 3, {"send": 33_587_200, "all_reduce": 435_862_768}),
    ("cosmoflow", 4, 0, {"send": 47_185_920, "all_gather": 791_040, "all_reduce": 28_227_648}),
    ("cosmoflow", 8, 5, {"send": 47_185_920, "all_gather": 791_040, "all_reduce": 37_135_204}),
    ("dlrm", 4, 0, {"all_to_all": 1_572_864, "all_reduce": 4_665_606}),
    ("dlrm", 8, 0, {"all_to_all": 1_835_008, "all_reduce": 5_443_207}),
]


@pytest.mark.parametrize(("name", "ranks", "rank", "expected"), COUNTED)
def test_a_rank_sends_the_bytes_that_were_counted(name, ranks, rank, expected):
    volume, _ = sent(compat(name, ranks), rank)
    assert {kind: volume[kind] for kind in expected} == expected


def test_cosmoflow_sends_in_all_what_was_counted():
    assert sum(sent(compat("cosmoflow", 4), 0)[0].values()) == 76_995_648
    assert sum(sent(compat("cosmoflow", 8), 0)[0].values()) == 85_903_204


def test_gpt3_with_two_stages_calls_as_often_as_was_counted():
    program = compat("gpt3", 8, stages=2, scale=2)
    for rank in range(8):
        volume, number = sent(program, rank)
        assert number == {"send": 4, "recv": 4, "all_reduce": 17}
        assert volume["send"] == 402_653_184
        groups = Counter(len(call[1]) for call in calls(program, rank) if call[0] == "all_reduce")
        assert groups == {4: 16, 1: 1}
        assert seconds(program, rank) == pytest.approx(190_980e-6)


def seconds(program, rank):
    ops = program.lists[program.class_of[rank]]
    return sum(op.seconds for op in ops if isinstance(op, Compute))


@pytest.mark.parametrize(
    ("name", "ranks", "microseconds"),
    [("cosmoflow", 8, 93_610), ("dlrm", 8, 3_091), ("resnet152", 4, 357_000)],
)
def test_a_rank_computes_as_long_as_the_original_sleeps(name, ranks, microseconds):
    assert seconds(compat(name, ranks), 0) == pytest.approx(microseconds / 1e6)


@pytest.mark.parametrize("fidelity", ["message", "collective"])
@pytest.mark.parametrize(
    ("name", "ranks", "parameters"),
    [
        ("gpt2_large", 8, {}),
        ("bert_large", 8, {}),
        ("cosmoflow", 8, {}),
        ("dlrm", 8, {}),
        ("resnet50", 8, {}),
        ("resnet50_ring", 8, {}),
        ("resnet152", 8, {}),
        ("gpt3", 8, {"stages": 2, "scale": 2}),
        ("gpt3_one_pipe_step", 8, {"stages": 2}),
    ],
)
def test_a_step_is_simulated_to_its_end(name, ranks, parameters, fidelity):
    program = compat(name, ranks, **parameters)
    run = simulate(program, cluster_named("dgx-h100"), fidelity=fidelity)
    longest = max(seconds(program, rank) for rank in range(ranks))
    assert longest < run.step_s[0] < longest + 2
    expected = [sent(program, rank)[0]["send"] for rank in range(ranks)]
    assert all(run.bytes_sent >= expected)


@pytest.mark.parametrize("fidelity", ["message", "collective"])
@pytest.mark.parametrize("name", ["gpt3_moe", "gpt3_moe_one_pipe_step"])
def test_a_mixture_of_experts_on_two_hosts_is_simulated_to_its_end(name, fidelity):
    scale = {"scale": 1} if name == "gpt3_moe" else {}
    program = compat(name, 32, stages=2, **scale)
    run = simulate(program, cluster_named("dgx-h100-pod"), fidelity=fidelity, steps=1)
    assert run.step_s[0] > seconds(program, 0)


@pytest.mark.parametrize(
    ("name", "ranks", "parameters", "message"),
    [
        ("gpt2", 8, {}, "no proxy 'gpt2' in dnn-cpp-proxies: did you mean gpt2_large"),
        ("gpt2_large", 8, {"depth": 3}, "no parameter 'depth': it takes layers, stages, micro_b"),
        ("dlrm", 8, {"batch": 3}, "no parameter 'batch': it takes the ranks alone"),
        ("gpt2_large", 8, {"layers": "abc"}, "layers of gpt2_large is 'abc'.*at least 1"),
        ("gpt2_large", 8, {"micro_batches": -5}, "micro_batches of gpt2_large is -5"),
        ("gpt2_large", 8, {"stages": 0}, "stages of gpt2_large is 0"),
        ("gpt2_large", 8, {"layers": 8, "stages": 1}, "needs at least 2 stages, not 1"),
        ("gpt2_large", 8, {"layers": 10}, "4 stages .* 10 layers.* 8 and 12 are.*drop 2"),
        ("gpt2_large", 8, {"layers": 2}, "4 stages .* 2 layers: .* divide 4 is"),
        ("gpt2_large", 6, {}, "a multiple of 4 ranks, and 6 is none: the nearest 4 and 8 are"),
        ("gpt3", 4, {"stages": 2}, "gpt3 with 2 stages runs on a multiple of 8 .* nearest 8 is"),
        ("gpt3", 8, {"stages": 1}, "needs at least 2 stages, not 1"),
        ("gpt3_moe", 16, {"stages": 2}, "multiple of 32 ranks"),
        ("gpt3_one_pipe_step", 12, {"stages": 3}, "an even number of stages, not 3"),
        ("cosmoflow", 6, {}, "multiple of 4 ranks, and 6 is none"),
        ("resnet152_scal", 300, {}, "256, 512, 1024, 2048 ranks alone, not 300: .* is 256"),
    ],
)
def test_what_the_original_crashes_on_is_refused(name, ranks, parameters, message):
    with pytest.raises(UsageError, match=message):
        compat(name, ranks, **parameters)
