"""What would fit is an answer: its options, given to the command, make a step that does fit."""

import shlex
from dataclasses import fields, replace
from typing import Any

import pytest

from steptime.cluster.files import cluster_named
from steptime.runs.memory import memory_on, with_fits
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

DEVICE = cluster_named("dgx-h100").device.memory


def applied(spec: StepSpec, options: str) -> StepSpec:
    """The specification with options of the command line."""
    types = {one.name: str(one.type) for one in fields(StepSpec)}
    found: dict[str, Any] = {}
    words = shlex.split(options)
    while words:
        name = words.pop(0).removeprefix("--").replace("-", "_")
        value = words.pop(0) if words and not words[0].startswith("--") else True
        found[name] = int(value) if "int" in types[name] else value
    return replace(spec, **found)


TIGHT = {
    "tensor, on too few ranks": ("dgx-h100", StepSpec(model="llama3-70B", tensor=8)),
    "tensor": ("dgx-h100-pod", StepSpec(model="llama3-70B", tensor=8)),
    "replicas": ("dgx-h100-pod", StepSpec(model="llama3-8B", ranks=8, strategy="replicated")),
    "rows": ("dgx-h100", StepSpec(model="gpt2-124M", batch=2048, strategy="overlapped")),
    "pipeline": ("dgx-h100-pod", StepSpec(model="gpt3-175B", ranks=64, tensor=8, pipeline=4)),
}


@pytest.mark.parametrize("name", TIGHT)
def test_the_changes_that_are_named_do_fit(name: str):
    cluster, spec = cluster_named(TIGHT[name][0]), TIGHT[name][1]
    step = step_of(spec, cluster)
    told = with_fits(memory_on(step, cluster), step, cluster)
    assert not told.fits
    assert 1 <= len(told.would_fit) <= 2
    for fit in told.would_fit:
        larger = applied(spec, fit.options)
        ranks = larger.ranks or cluster.order.size
        assert ranks == fit.ranks
        assert (larger.tensor or 1) <= 8, "tensor parallelism stays within a host"
        assert fit.has_places == (ranks <= cluster.order.size)
        memory = memory_on(step_of(replace(larger, ranks=ranks, precision="bf16")), None)
        assert memory.total == fit.total <= DEVICE


def test_no_more_ranks_are_asked_for_where_these_will_do():
    cluster = cluster_named("dgx-h100-pod")
    step = step_of(StepSpec(model="llama3-70B", ranks=512, tensor=8), cluster)
    told = with_fits(memory_on(step, cluster), step, cluster)
    assert [fit.ranks for fit in told.would_fit] == [512, 512]


def test_the_same_batch_in_more_micro_batches():
    cluster = cluster_named("dgx-h100")
    step = step_of(StepSpec(model="gpt2-124M", batch=2048, strategy="replicated"), cluster)
    first = with_fits(memory_on(step, cluster), step, cluster).would_fit[0]
    assert first.options == "--rows 128"
    assert step_of(applied(step.asked, first.options), cluster).spec.batch == 2048


def test_a_model_beyond_all_that_is_tried_has_no_answer():
    cluster = cluster_named("laptop")
    step = step_of(StepSpec(model="gpt3-175B", tensor=4, precision="fp32"), cluster)
    assert with_fits(memory_on(step, cluster), step, cluster).would_fit == []
