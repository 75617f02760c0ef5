"""The two stages of a plan tell of the same step: the estimate and the simulation of its best."""

from typing import Any

import numpy as np
import pytest

from steptime.cluster import cluster_named
from steptime.plan.asked import Asked, asked_of
from steptime.plan.options import PlanOptions
from steptime.plan.search import search
from steptime.plan.simulated import agreement, with_simulated
from steptime.predict.driven import driven
from steptime.predict.layouts import Layouts
from steptime.predict.software import software_named
from steptime.program import Collective, Compute
from steptime.workloads.step import step_of

APART = 0.03
LAYOUTS = 6
ROW: dict[str, Any] = {"tokens_per_row": 4096, "batch": 64}
CASES: dict[str, tuple[str, str, int, dict[str, Any], str]] = {
    "data": ("gpt2-124M", "dgx-a100", 8, {"batch": 512}, "megatron"),
    "sharded parameters": ("llama3-8B", "dgx-h100", 8, ROW | {"zero": 3}, "torchtitan"),
    "late host": ("llama3-8B", "dgx-a100", 8, ROW, "llm-foundry"),
    "tensor calls behind products": ("llama3-8B", "dgx-h100", 8, ROW | {"tensor": 8}, "nemo"),
    "tensor and context": (
        *("llama3-8B", "dgx-h100", 8),
        ROW | {"tensor": 2, "context": 2},
        "megatron",
    ),
    "interleaved": ("llama3-8B", "dgx-h100", 8, ROW | {"pipeline": 4}, "megatron"),
    "zb-h1": (
        *("llama3-8B", "dgx-h100", 8),
        ROW | {"pipeline": 4, "schedule": "zb-h1"},
        "megatron",
    ),
    "full recompute": (
        *("gpt3-13B", "dgx-a100-pod", 32),
        {"batch": 128, "tensor": 8, "pipeline": 4, "recompute": "full"},
        "megatron-2023",
    ),
    "scores through memory": (
        *("gpt3-13B", "dgx-a100-pod", 32),
        {"batch": 128, "tensor": 8, "pipeline": 2, "recompute": "selective", "zero": 0},
        "megatron-2021",
    ),
    "a window in some layers": (
        *("gpt-oss-20B", "dgx-h100-pod", 16),
        {"tokens_per_row": 8192, "batch": 64, "expert": 8},
        "megatron",
    ),
    "experts": ("mixtral-8x7B", "dgx-h100-pod", 32, ROW | {"expert": 8}, "megatron"),
}


def asked(name: str, place: str, gpus: int, fixed: dict[str, Any], software: str) -> Asked:
    of = software_named(software)
    return asked_of(name, cluster_named(place), of, (gpus,), PlanOptions(**fixed))


TAKE_LONG = {
    *("late host", "interleaved", "full recompute", "scores through memory"),
    *("zb-h1", "a window in some layers", "tensor and context"),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.slow] if name in TAKE_LONG else [])
        for name, case in CASES.items()
    ],
)
def test_the_best_are_simulated_as_they_were_estimated(
    case: tuple[str, str, int, dict[str, Any], str],
) -> None:
    of = asked(*case)
    found = search(of.model, of.layouts(of.gpus[0]), of.machine, best=LAYOUTS)
    agreed = agreement(found.step_s, with_simulated(of, found.layouts[:LAYOUTS], budget_s=600.0))
    assert agreed is not None
    assert agreed.layouts >= LAYOUTS / 2
    assert agreed.median <= APART


def programs(software: str, **fixed: Any) -> tuple[list[Any], list[Any]]:
    """The ops of a step as they are made, and as the software drives them."""
    of = asked("llama3-8B", "dgx-h100", 8, ROW | fixed, software)
    layouts: Layouts = search(of.model, of.layouts(8), of.machine, best=1).layouts[:1]
    made = step_of(of.spec(layouts[0]), of.cluster, model=of.model).program
    (before,), (after,) = made.lists, driven(made, of.model, layouts, of.machine).lists
    return list(before), list(after)


def test_software_changes_how_long_ops_take_and_nothing_else() -> None:
    before, after = programs("llm-foundry", tensor=2)
    assert [(one.name, one.stream, one.after) for one in before] == [
        (one.name, one.stream, one.after) for one in after
    ]
    assert all(one.seconds for one in after if isinstance(one, Compute) and one.kernels)


def test_of_calls_that_run_behind_products_the_rest_is_waited_for() -> None:
    before, driven_ops = programs("nemo", tensor=4, sequence_parallel=False)
    part = software_named("nemo").tensor_overlap
    assert 0 < part < 1
    hidden = [one for one in driven_ops if one.stream.endswith("behind computing")]
    after = [one for one in driven_ops if one not in hidden]
    of_tensor = [one.nbytes for one in before if getattr(one, "group", ()) == ("tensor",)]
    assert [one.nbytes for one in hidden] == pytest.approx([part * n for n in of_tensor], rel=1e-3)
    for one, b in zip(before, after, strict=True):
        assert [driven_ops[n].name for n in b.after] == [before[n].name for n in one.after]
        if isinstance(one, Collective):
            waited = 1 - part if one.group == ("tensor",) else 1
            assert b.nbytes == pytest.approx(waited * one.nbytes, rel=1e-3)


def test_a_hidden_part_begins_with_the_computing_that_its_call_follows() -> None:
    _, ops = programs("nemo", tensor=4, sequence_parallel=False)
    for place, op in enumerate(ops):
        if op.stream.endswith("behind computing"):
            before = [one for one in ops[:place] if isinstance(one, Compute)][-1]
            assert op.after == before.after
            assert ops[place + 1].name == op.name


def test_what_backward_gathers_again_is_waited_for_twice() -> None:
    before, after = programs("megatron", tensor=2, sequence_parallel=True)
    again = {
        one.name.split()[0]: b.nbytes / one.nbytes
        for one, b in zip(before, after, strict=True)
        if isinstance(one, Collective) and one.kind == "all_gather" and one.group == ("tensor",)
    }
    assert again == {"forward": 1.0, "backward": 2.0}
    assert np.isfinite([one.nbytes for one in after if isinstance(one, Collective)]).all()
