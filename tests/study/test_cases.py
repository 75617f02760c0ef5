"""From what is asked for to programs: ranks, batch, precision and strategies that fit a cluster."""

import pytest

from steptime.cluster.files import cluster_named
from steptime.errors import UsageError
from steptime.study.cases import able_strategies, asked_of_model, is_program
from steptime.study.options import HowOptions
from steptime.workloads.spec import StepSpec

MEMORY = 80998 << 20
"""Of an H100: what is there for a process, in bytes."""


def asked(cluster="dgx-h100", model="gpt2-124M", **given):
    return asked_of_model(StepSpec(model=model, **given), cluster_named(cluster), {})


def test_a_model_fills_the_cluster_under_every_strategy_that_can_run_there():
    found = asked()
    assert [case.name for case in found.cases] == able_strategies(cluster_named("dgx-h100"))
    assert {case.program.ranks for case in found.cases} == {8}
    assert {case.program.name for case in found.cases} == {case.name for case in found.cases}
    assert found.facts["batch"] == 64
    assert found.facts["precision"] == "bf16"
    assert found.tokens == 64 * 1024


def test_a_model_of_images_is_data_parallel_and_has_no_tokens():
    found = asked(model="resnet50", strategy="replicated")
    assert found.cases[0].program.axes == {"data": 8}
    assert found.facts["batch"] == 64
    assert found.tokens is None
    with pytest.raises(UsageError, match=r"resnet50 is .* no heads or blocks to cut"):
        asked(model="resnet50", tensor=2)


def test_ranks_share_memory_on_a_bus_alone():
    assert "shared" in able_strategies(cluster_named("laptop"))
    assert "shared" not in able_strategies(cluster_named("dgx-h100"))
    with pytest.raises(UsageError, match="the strategy shared keeps parameters in memory"):
        asked(strategy="shared")


def test_the_schedule_of_a_pipeline_is_passed_on():
    orders = [
        [op.name for op in asked(pipeline=2, data=1, batch=8, **more).cases[0].program.lists[0]]
        for more in ({}, {"schedule": "gpipe"}, {"schedule": "interleaved"}, {"schedule": "zb-h1"})
    ]
    assert len({tuple(names) for names in orders}) == 4


def test_hybrid_takes_the_ranks_that_tensor_and_pipeline_leave_as_replicas():
    found = asked(tensor=2, pipeline=2, batch=8, tokens=128)
    assert found.cases[0].program.axes == {"tensor": 2, "data": 2, "pipeline": 2}
    assert found.facts["micro_batches"] == 4
    assert found.facts["model"] == "gpt2-124M, tensor 2 × data 2 × pipeline 2"
    assert found.tokens == 8 * 128
    assert [case.name for case in asked(tensor=2, strategy="all").cases] == [
        "replicated",
        "sharded",
        "overlapped",
        "overlapped_sharded",
    ]
    assert asked(tensor=2, pipeline=2, data=1).cases[0].program.ranks == 4


def test_experts_and_rows_may_be_shared_too():
    found = asked("h100-16384", "mixtral-8x7B", ranks=64, expert=4, context=2, tokens=1024)
    (case,) = found.cases
    axes = {"tensor": 1, "context": 2, "expert": 4, "data": 8, "pipeline": 1}
    assert case.program.axes == axes
    assert found.facts["model"] == (
        "mixtral-8x7B, tensor 1 × context 2 × expert 4 × data 8 × pipeline 1"
    )
    assert found.facts["batch"] == 32 * 4
    assert found.tokens == 32 * 4 * 1024
    placement = {row.axis: row.hosts for row in found.facts_of["replicated"]["placement"]}
    assert placement == {
        "context": 1,
        "expert": 1,
        "data": 8,
        "context+expert+data": 8,
        "context+data": 8,
    }


@pytest.mark.parametrize(("stage", "name"), [(0, "replicated"), (1, "sharded"), (3, "zero3")])
@pytest.mark.parametrize("more", [{}, {"tensor": 2}])
def test_a_stage_of_zero_names_the_strategy_and_says_what_a_rank_keeps(stage, name, more):
    found = asked(zero=stage, **more)
    assert [case.name for case in found.cases] == [name]
    memory = found.facts_of[name]["model_memory"]
    assert memory.device_bytes == MEMORY
    assert memory.fits == (memory.total <= MEMORY)
    ranks = 8 // more.get("tensor", 1)
    plain = asked(zero=0, **more).facts_of["replicated"]["model_memory"]
    if stage:
        assert memory.optimizer == pytest.approx(plain.optimizer / ranks, rel=1e-3)
    if stage == 3:
        assert memory.parameters == pytest.approx(plain.parameters / ranks, rel=1e-3)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"ranks": 9}, "9 ranks do not fit on dgx-h100, which has 8"),
        (
            {"tensor": 3},
            "tensor 3 × data 2 × pipeline 1 are 6 ranks, not 8: "
            "the nearest number of ranks that goes is 6 or 9",
        ),
        ({"tensor": 2, "data": 8}, "16 ranks do not fit on dgx-h100"),
        (
            {"tensor": 2, "data": 2, "ranks": 8},
            "are 4 ranks, not 8: the nearest number of ranks that goes is 8",
        ),
        ({"batch": 12}, "--batch 12 does not divide among 8 replicas of 1 micro-batch each"),
        ({"tensor": 2, "batch": 6, "micro_batches": 2}, "the nearest that does is 8"),
        ({"schedule": "gpipe"}, "--schedule is about a pipeline"),
        ({"pipeline": 8}, "8 pipeline stages do not divide the 12 layers"),
        ({"strategy": "nonesuch"}, "there is no strategy 'nonesuch'"),
        ({"strategy": "server,"}, "there is no strategy ''"),
        ({"strategy": ""}, "there is no strategy ''"),
        ({"pipeline": 12}, "12 ranks do not fit on dgx-h100"),
        ({"tensor": 2, "strategy": "server"}, "no strategy 'server'"),
        ({"tensor": 2, "batch": 8, "rows": 4, "micro_batches": 2}, "the nearest that does is 32"),
        ({"batch": 12, "rows": 4}, "the nearest that does is 32"),
        ({"tokens": 2048}, "positions for 1 to 1024"),
        (
            {"context": 3},
            "context 3 × data 2 × pipeline 1 are 6 ranks, not 8: "
            "the nearest number of ranks that goes is 6 or 9",
        ),
        ({"expert": 2}, "gpt2-124M has no experts to spread over 2 expert ranks"),
        ({"sequence_parallel": True}, "give --tensor 2 or more too"),
        ({"zero": 1, "strategy": "replicated"}, "--zero 1 and --strategy replicated contradict"),
        ({"zero": 2, "pipeline": 2}, "zero2 does not go with 2 pipeline stages"),
        ({"zero": 4}, "ZeRO has the stages 0, 1, 2 and 3"),
    ],
)
def test_what_does_not_fit_is_refused(given, sentence):
    with pytest.raises(UsageError) as refused:
        asked(**given)
    assert sentence in str(refused.value)


def test_a_dtype_that_the_devices_lack_is_refused():
    with pytest.raises(UsageError, match="the devices of laptop have no rate for fp16"):
        asked("laptop", precision="fp16")
    assert asked("laptop").facts["precision"] == "fp32"


@pytest.mark.parametrize("field", ["ranks", "batch", "tensor", "micro_batches", "bucket"])
def test_numbers_below_1_are_refused(field):
    with pytest.raises(UsageError, match=f"--{field.replace('_', '-')} is 0: it must be at least"):
        StepSpec(**{field: 0})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ring", "write KIND=NAME"),
        ("all_reduce=", "write KIND=NAME"),
        ("all_reduce=ring,all_reduce=flat", "names two for all_reduce"),
    ],
)
def test_algorithms_are_pairs(text, sentence):
    with pytest.raises(UsageError, match=sentence):
        HowOptions(algorithm=text)


def test_fidelity_goes_by_the_number_of_ranks_unless_it_is_named():
    assert HowOptions().fidelity_of(128) == "message"
    assert HowOptions().fidelity_of(129) == "collective"
    assert HowOptions(fidelity="message").fidelity_of(4096) == "message"
    assert HowOptions(algorithm="all_reduce=ring, broadcast=flat").algorithms() == {
        "all_reduce": "ring",
        "broadcast": "flat",
    }


def test_a_program_is_told_from_a_model_by_its_path(tmp_path):
    assert is_program(str(tmp_path))
    assert is_program("step.0.et")
    assert is_program("./traces")
    assert not is_program("gpt2-124M")
