"""Steps simulated as a framework drives devices: ``--software``, wherever a step is asked for."""

from dataclasses import replace
from pathlib import Path

import pytest

import steptime as st
from cli.command import here
from steptime.api.results import Run
from steptime.cluster import cluster_named
from steptime.plan.asked import asked_of
from steptime.plan.options import PlanOptions
from steptime.plan.search import search
from steptime.plan.simulated import with_simulated
from steptime.predict.driven import as_cut
from steptime.predict.software import software_named
from steptime.program import check
from steptime.study.cases import asked_of_model
from steptime.study.options import HowOptions
from steptime.study.simulate import prepare_all, study
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import Step, step_of

STEP = {"ranks": 8, "tensor": 8, "batch": 16, "strategy": "overlapped"}
POD = {"ranks": 16, "tensor": 8, "batch": 32, "fidelity": "collective"}


@pytest.fixture(scope="module")
def driven() -> Run:
    return st.simulate("llama3-8B", "dgx-h100", software="nemo", what_if="compute=2x", **STEP)


def test_it_is_the_step_that_a_plan_simulates() -> None:
    tensor = PlanOptions(tokens_per_row=4096, batch=64, tensor=8)
    nemo, there = software_named("nemo"), cluster_named("dgx-h100")
    of = asked_of("llama3-8B", there, nemo, (8,), tensor)
    layouts = search(of.model, of.layouts(8), of.machine, best=1).layouts[:1]
    (planned,) = with_simulated(of, layouts, budget_s=600.0).seconds
    how = HowOptions(fidelity="collective")
    spec = replace(of.spec(layouts[0]), zero=None, strategy="overlapped_sharded", software="nemo")
    asked = asked_of_model(spec, there, {})
    (done,) = study(
        asked, there, how, prepare_all(asked, there, how), lambda _: None
    ).simulations.values()
    assert done.step_s[-1] == planned


def test_it_takes_longer_than_its_kernels_and_sends_the_same(driven: Run) -> None:
    plain = st.simulate("llama3-8B", "dgx-h100", **STEP)
    assert driven.figures.compute_s > 1.05 * plain.figures.compute_s
    assert driven.figures.bytes_sent_per_rank == pytest.approx(
        plain.figures.bytes_sent_per_rank, rel=1e-6
    )


def test_it_says_what_drives_it_and_how_far_off_that_is(driven: Run) -> None:
    assert str(driven.figures.compute_speed).startswith("computing by kernels as nemo drives them")
    assert driven.figures.expected is not None
    assert driven.figures.expected.software == "nemo"
    assert "nemo drives" in str(driven)


def test_faster_devices_compute_it_faster(driven: Run) -> None:
    (there,) = driven.record.what_if.strategies.values()
    assert there.compute_s == pytest.approx(driven.figures.compute_s / 2)


def test_all_wait_for_the_slowest_of_many_hosts() -> None:
    assert software_named("megascale").jitter > 0
    run = st.simulate("llama3-8B", "dgx-h100-pod", software="megascale", **POD)
    names = run.timeline.names
    rows = run.timeline.intervals
    waits = rows[[names[n] == "slowest device" for n in rows["name"]]]
    assert len(waits) > 0
    assert (waits["end"] > waits["start"]).all()


def test_stages_are_cut_as_the_software_cuts_them() -> None:
    """The head of so small a model is worth blocks, which the last stages have the fewer of."""
    spec = StepSpec(model="llama3-8B", ranks=8, pipeline=8, micro_batches=8, tokens=4096)
    there = cluster_named("dgx-h100")
    made = step_of(spec, there)
    cut = as_cut(made, software_named("nanotron"))
    assert blocks(made) == [4] * 8
    assert sum(blocks(cut)) == 32
    assert blocks(cut)[-1] < 4 < blocks(cut)[0]
    assert cut.memory[0].parameters > made.memory[0].parameters
    assert as_cut(made, software_named("megatron")) is made
    check(cut.program)


def blocks(step: Step) -> list[int]:
    """The blocks of each stage."""
    return [sum(op.name == "forward 0 attention" for op in ops) for ops in step.program.lists]


def test_a_scale_is_of_it_too() -> None:
    asked = {"ranks": [8], "tensor": 8, "batch": 16, "strategies": "overlapped", "kind": "strong"}
    run = st.scale("llama3-8B", cluster="dgx-h100", software="nemo", **asked)
    one = st.simulate("llama3-8B", "dgx-h100", software="nemo", **STEP)
    assert run.record.base.step_time_s == one.step_s
    assert "nemo" in str(run.record.base.compute_speed)


def test_steps_under_other_software_are_other_work(tmp_path: Path) -> None:
    for software in ("megatron", "nemo"):
        words = ("llama3-8B", "--cluster", "dgx-h100", "--tensor", "8", "--software", software)
        here("simulate", *words, "--out", software, "--quiet", folder=tmp_path)
    ended = here("diff", "megatron", "nemo", folder=tmp_path)
    assert "software" in ended.out + ended.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("simulate", "gpt2", "--cluster", "dgx-h100", "--software", "megatrn"),
            "there is no software 'megatrn': did you mean megatron?",
        ),
        (
            ("simulate", "resnet50", "--cluster", "dgx-h100", "--software", "megatron"),
            "--software is for transformers, and resnet50 is",
        ),
        (
            (
                *("simulate", "llama3-8B", "--cluster", "dgx-h100", "--software", "nanotron"),
                *("--pipeline", "8", "--micro-batches", "4", "--tokens", "512"),
            ),
            "nanotron runs no such layout of llama3-8B: its 1F1B needs",
        ),
        (
            ("proxy", "gpt2", "--ranks", "2", "--software", "megatron"),
            "--software drives the devices of a cluster: give --cluster too",
        ),
        (
            ("scale", "gpt2-nano", "--software", "megatron"),
            "--software is not for a training here",
        ),
    ],
)
def test_what_it_cannot_drive_is_refused(
    words: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    ended = here(*words, folder=tmp_path)
    assert ended.code == 2
    assert sentence in ended.err


def test_a_step_that_is_far_from_the_estimate_says_what_is_closer() -> None:
    step = {"batch": 32, "strategy": "zero3", "fidelity": "collective"}
    far = st.simulate("gpt2-1558M", "dgx-h100", **step)
    near = st.simulate("gpt2-1558M", "dgx-h100", software="torchtitan", **step)
    sentence = "simulates what that makes of it"
    assert far.figures.expected is not None
    assert f"--software {far.figures.expected.software} {sentence}" in " ".join(str(far).split())
    assert sentence not in " ".join(str(near).split())
