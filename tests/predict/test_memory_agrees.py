"""The closed form of a rank's memory against that of the step that is simulated.

But for what is there for a moment: the simulated step cuts it into buckets of another size.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.predict.layouts import Layouts, layouts_of
from steptime.predict.memory import memory
from steptime.predict.software import Footprint, Software
from steptime.workloads.models import Transformer, model_named, transformer_of
from steptime.workloads.resolve import resolved
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import memory_of_step

PLAIN = Software(
    name="plain",
    title="",
    source="",
    footprint=Footprint(
        logit_bytes=4, workspace_bytes=0, context_bytes=0, communicator_bytes=0, fragments=0
    ),
)
"""What the simulated step assumes: no framework, and attention that is fused."""
ALONE = replace(PLAIN, footprint=replace(PLAIN.footprint, logit_bytes=2, logit_kept_bytes=2))
"""The same where no ranks share the words: logits stay in the 16 bits in which they are made."""

SHARED = [
    {"tensor": 2, "sequence_parallel": True},
    {"tensor": 4},
    {"pipeline": 4, "micro_batches": 8},
    {"pipeline": 2, "micro_batches": 4, "interleave": 2, "schedule": "interleaved"},
    {"pipeline": 4, "micro_batches": 3, "schedule": "gpipe"},
    {"pipeline": 4, "micro_batches": 6, "schedule": "zb-h1"},
    {"context": 2, "data": 2, "rows": 2},
    {"data": 4, "tensor": 2},
    {"pipeline": 4, "tensor": 2, "micro_batches": 8, "data": 2, "sequence_parallel": True},
]
RECOMPUTES = ("none", "selective", "full")


def one_of(spec: StepSpec, model: Transformer) -> Layouts:
    return layouts_of([resolved(spec, model)])


@pytest.mark.parametrize("name", ["gpt3-6.7B", "llama3-8B", "mistral-7B"])
def test_both_ways_count_the_same(name: str) -> None:
    model = transformer_of(model_named(name))
    compared = 0
    for shared, recompute, zero in product(SHARED, RECOMPUTES, range(4)):
        spec = StepSpec(model=name, tokens=2048, recompute=recompute, zero=zero, **shared)
        try:
            stages = memory_of_step(spec, model)
        except UsageError:
            continue
        found = memory(model, one_of(spec, model), PLAIN if "tensor" in shared else ALONE)
        simulated = stages[int(found.stage[0])]
        most = max(one.total - one.passing for one in stages)
        kept = {name: float(one[0]) for name, one in found.categories.items()}
        told = f"{shared} {recompute} ZeRO-{zero}"
        # The closed form takes all chunks of a stage to be alike.
        close = 1e-2 if "interleave" in shared else 2e-3
        assert found.total[0] - kept["buffers"] == pytest.approx(most, rel=close), told
        assert kept["parameters"] == pytest.approx(simulated.parameters, rel=2e-3), told
        assert kept["optimizer"] == pytest.approx(simulated.optimizer, rel=2e-3), told
        activations = kept["activations"] + kept["logits"]
        assert activations == pytest.approx(simulated.activations, rel=close), told
        compared += 1
    assert compared > 60


@pytest.mark.parametrize("name", ["mixtral-8x7B", "gpt-oss-20B"])
def test_experts_count_the_same(name: str) -> None:
    model = transformer_of(model_named(name))
    for expert, zero in product((1, 2, 8), (0, 1, 3)):
        spec = StepSpec(model=name, tokens=4096, expert=expert, data=2, zero=zero)
        spec = replace(spec, tensor=2)
        simulated = max(one.total - one.passing for one in memory_of_step(spec, model))
        found = memory(model, one_of(spec, model), PLAIN)
        lasting = found.total - found.categories["buffers"]
        assert np.allclose(lasting, simulated, rtol=2e-3), (expert, zero)
