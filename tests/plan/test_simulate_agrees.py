"""What plan says of a layout's memory beside what the simulation of the line that it prints says.

Without a framework both must count the same. Under one, what plan says fits must fit when it is
simulated; where only the framework's own bytes decide, simulate must say so.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from steptime.cluster import Cluster, cluster_named
from steptime.errors import UsageError
from steptime.plan.asked import Asked, asked_of
from steptime.plan.figures import figures_of
from steptime.plan.options import PlanOptions
from steptime.plan.search import search
from steptime.predict.layouts import Layouts
from steptime.predict.memory import memory
from steptime.predict.software import Footprint, Software, software_named
from steptime.runs.memory import memory_lines, memory_on
from steptime.workloads.model_memory import Memory
from steptime.workloads.models import model_named
from steptime.workloads.step import memory_of_step, step_of

NONE = Software(
    name="none",
    title="",
    source="",
    footprint=Footprint(
        logit_bytes=4, workspace_bytes=0, context_bytes=0, communicator_bytes=0, fragments=0
    ),
)
"""No framework: what simulate counts."""
NONE_SHARES_WORDS = replace(
    NONE, footprint=replace(NONE.footprint, logit_bytes=2, logit_kept_bytes=2)
)
"""The same where no ranks share the words: logits stay in the 16 bits in which they are made."""
FRAMEWORKS = {"megatron": "dgx-h100-pod", "megatron-2021": "dgx-a100", "nemo": "dgx-h100"}
"""Frameworks, each on a cluster of its years."""

MODELS = [
    *("gpt2-124M", "gpt3-13B", "llama3-8B", "llama3-70B"),
    *("mixtral-8x7B", "qwen2.5-7B", "qwen3-8B", "deepseek-v3", "gpt-oss-20B"),
]
CLUSTERS = ("dgx-h100", "dgx-a100", "dgx-h100-pod")
FIXED: list[dict[str, Any]] = [
    {},
    *({"zero": stage} for stage in range(4)),
    *({"recompute": kind} for kind in ("none", "selective", "full")),
    {"pipeline": 4},
    {"pipeline": 2, "interleave": 2},
    {"pipeline": 4, "schedule": "zb-h1"},
    {"context": 2},
    {"tensor": 4},
]


def asked(name: str, cluster: Cluster, software: Software, **fixed: Any) -> Asked:
    options = PlanOptions(**fixed)
    return asked_of(model_named(name), cluster, software, [cluster.order.size], options)


def best(of: Asked) -> tuple[Layouts, bool]:
    """The best layout, shape (1,), and whether it fits."""
    found = search(of.model, of.layouts(of.gpus[0]), of.machine, best=1, told=False)
    return found.layouts[:1], found.fits


def both(
    name: str, clusters: tuple[str, ...], software: Software, fixed: list[dict[str, Any]]
) -> Iterator[tuple[str, Asked, Layouts, bool, tuple[Memory, ...]]]:
    """Each best layout that can be simulated, with what its stages keep when it is."""
    for place in clusters:
        for said in fixed:
            try:
                of = asked(name, cluster_named(place), software, **said)
                layout, fits = best(of)
                stages = memory_of_step(of.spec(layout[0]), of.model)
            except UsageError:  # what does not divide, or only this software shards
                continue
            yield f"{name} on {place} with {said}", of, layout, fits, stages


def count_the_same(
    name: str, clusters: tuple[str, ...], fixed: list[dict[str, Any]] = FIXED
) -> int:
    """Hold every category of both against each other; how many layouts were."""
    compared = 0
    for what, of, layout, _, stages in both(name, clusters, NONE, fixed):
        found = memory(of.model, layout, NONE if layout["tensor"][0] > 1 else NONE_SHARES_WORDS)
        kept = {part: float(values[0]) for part, values in found.categories.items()}
        own = stages[int(found.stage[0])]
        assert kept["framework"] == 0
        for part in ("parameters", "gradients", "optimizer"):
            assert kept[part] == pytest.approx(getattr(own, part), rel=0.01), (what, part)
        activations = kept["activations"] + kept["logits"]
        # The closed form takes all chunks of a stage to be alike.
        close = 0.04 if layout["interleave"][0] > 1 else 0.03
        assert activations == pytest.approx(own.activations, rel=close), what
        # Buckets are cut otherwise there: of a pool of their own where experts are spread.
        assert abs(kept["buffers"] - own.passing) <= 0.02 * own.total, what
        assert found.total[0] == pytest.approx(max(one.total for one in stages), rel=0.05), what
        compared += 1
    return compared


def test_without_a_framework_a_model_with_dropout_counts_the_same() -> None:
    fixed: list[dict[str, Any]] = [
        {},
        {"zero": 1},
        {"pipeline": 2, "interleave": 2},
        {"recompute": "full"},
    ]
    assert count_the_same("gpt3-13B", ("dgx-h100",), fixed) == len(fixed)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_without_a_framework_both_count_the_same(name: str) -> None:
    assert count_the_same(name, CLUSTERS) >= len(CLUSTERS) * (len(FIXED) - 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "software"),
    [
        (name, software)
        for name in MODELS
        # A step of many experts takes half a minute, and no framework knows one by its name.
        for software in (["megatron"] if name == "deepseek-v3" else FRAMEWORKS)
    ],
)
def test_what_plan_says_fits_does_when_it_is_simulated(name: str, software: str) -> None:
    ways = both(name, (FRAMEWORKS[software],), software_named(software), FIXED)
    for what, of, _, fits, stages in ways:
        most = max(one.total for one in stages)
        assert not fits or most <= of.cluster.device.memory, what


def test_software_that_sums_gradients_in_16_bits_is_simulated_so() -> None:
    of = asked("llama3-8B", cluster_named("dgx-h100"), software_named("nemo"), zero=1)
    layout, _ = best(of)
    spec = of.spec(layout[0])
    assert "--reduce-dtype bf16" in figures_of(of, layout, None)[0].options
    (narrow, *_), (wide, *_) = (
        memory_of_step(replace(spec, reduce_dtype=dtype), of.model)
        for dtype in (spec.reduce_dtype, "fp32")
    )
    assert 2 * narrow.gradients == wide.gradients


def test_simulate_says_where_only_the_framework_does_not_fit() -> None:
    of = asked("qwen2.5-7B", cluster_named("dgx-h100"), software_named("megatron"), pipeline=4)
    layout, fits = best(of)
    told = memory_on(step_of(of.spec(layout[0]), of.cluster), of.cluster)
    assert not fits
    assert told.fits
    assert told.too_much is not None
    assert told.too_much.total == figures_of(of, layout, None)[0].memory_bytes
    lines = list(memory_lines(told))
    assert max(map(len, lines)) <= 80
    assert lines[-2].startswith("  under megatron 10")


def test_simulate_says_nothing_of_it_where_all_fits() -> None:
    of = asked("llama3-8B", cluster_named("dgx-h100"), software_named("megatron"))
    layout, fits = best(of)
    told = memory_on(step_of(of.spec(layout[0]), of.cluster), of.cluster)
    assert fits
    assert told.fits
    assert told.too_much is None
