"""One specification of a step: what verbs make of it, its defaults, and what it refuses."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from steptime.cluster import Cluster
from steptime.cluster.files import cluster_named, parse_cluster
from steptime.errors import UsageError
from steptime.predict.driven import driven_step
from steptime.program import Compute, Op, Program
from steptime.replay.options import ProxyOptions
from steptime.replay.workload import Proxy, proxy_of
from steptime.study.cases import Asked, asked_of_model
from steptime.study.options import HowOptions
from steptime.study.resimulate import training_step
from steptime.study.scale_options import LiveOptions, live_job, make_grid
from steptime.study.scale_simulated import asked_at
from steptime.study.simulate import prepare_all, study
from steptime.study.simulated_proxy import simulate_proxy
from steptime.train.options import DataOptions
from steptime.workloads.models import Transformer, model_named
from steptime.workloads.resolve import model_of
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

SMALL = """
title = "two hosts of four devices"
[device]
flops = {{ fp32 = "10TFLOP/s", fp16 = "20TFLOP/s"{more} }}
memory = "8GB"
memory_bandwidth = "100GB/s"
[host]
devices = 4
count = 2
[inside]
kind = "switch"
bandwidth = "50GB/s"
latency = "1us"
[nic]
bandwidth = "5GB/s"
latency = "5us"
[network]
kind = "switch"
"""
TEXTS = {
    "small": SMALL.format(more=', bf16 = "20TFLOP/s"'),
    "older": SMALL.format(more=""),
}
CLUSTERS = {name: parse_cluster(text, name) for name, text in TEXTS.items()}
HOW = HowOptions(fidelity="collective")
SHARING = ("replicated", "sharded", "overlapped", "overlapped_sharded")


OWN = ("dlrm", "resnet50", "cosmoflow")
TRANSFORMERS = ("gpt2-nano", "gpt2", "mixtral-8x7B")


@st.composite
def specs(draw: st.DrawFn, *, wild: bool = False) -> StepSpec:
    """Specifications of small steps on up to 8 ranks; ``wild`` ones often contradict themselves."""

    def one(*choices: Any, where: bool = True) -> Any:
        return draw(st.sampled_from(choices)) if where or wild else None

    model = one(*TRANSFORMERS, *OWN)
    cut = model in TRANSFORMERS
    tensor, pipeline = one(None, 1, 2, where=cut), one(None, 1, 2, where=cut)
    piped = pipeline == 2
    plain = tensor != 2 and not piped
    return StepSpec(
        model=model,
        layers=one(None, 4, where=cut),
        ranks=one(None, 4, 8),
        data=one(None, 3) if wild else None,
        tensor=tensor,
        pipeline=pipeline,
        expert=one(None, 2, where=model == "mixtral-8x7B"),
        context=one(None, 1, 2, where=cut and not plain),
        sequence_parallel=bool(one(False, True, where=tensor == 2)),
        recompute=one("none", "selective", "full", where=cut) or "none",
        batch=one(None, 32, 64, *[36] * wild),
        micro_batches=one(None, 2, 4, *[3] * wild),
        rows=one(None, 2) if wild else None,
        tokens=one(None, 64, 128, where=cut),
        precision=one(None, "fp32", "fp16", *["bf16"] * wild),
        reduce_dtype=one(None, "fp32", "bf16"),
        strategy=one(*SHARING, *["server", "sliced", "zero2", "zero3", "shared", "none"] * wild),
        zero=one(None, 1, 3) if wild else None,
        bucket=one(None, 1 << 16, where=model not in OWN),
        schedule=one(None, "gpipe", "1f1b", "interleaved", "zb-h1", where=piped),
        interleave=one(None, 1, 2) if wild else None,
        software=one(None, "nemo", "nanotron", where=cut),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The paths of both clusters' files, by the names of the clusters."""
    folder = tmp_path_factory.mktemp("clusters")
    for name, text in TEXTS.items():
        (folder / f"{name}.toml").write_text(text)
    return {name: str(folder / f"{name}.toml") for name in TEXTS}


def sentence(refused: UsageError) -> str:
    return str(refused).removesuffix(", or a folder of Chakra .et files by its path")


def sent(program: Program) -> tuple[Any, ...]:
    """What ranks compute and send, wherever the times of computing come from."""

    def untimed(op: Op) -> Op:
        return replace(op, seconds=None) if isinstance(op, Compute) else op

    lists = tuple(tuple(map(untimed, ops)) for ops in program.lists)
    return lists, program.class_of.tolist(), dict(program.axes)


def proxy_at(spec: StepSpec, path: str) -> Proxy:
    return proxy_of(spec, ProxyOptions(cluster=path))


def scaled(spec: StepSpec, there: Cluster) -> Asked:
    """The step as a cell of ``scale --strong``, which says its ranks and the batch of all."""
    asked = spec.strategy or "replicated"
    grid = make_grid([spec.ranks or 8], [1], [asked], "strong", None)
    (point,) = grid.points
    return asked_at(point, grid, replace(spec, strategy=None, zero=None), there)


def step_s(asked: Asked) -> list[float]:
    """How long the steps of the one case take, in seconds."""
    prepared = prepare_all(asked, asked.cluster, HOW)
    (simulation,) = study(asked, asked.cluster, HOW, prepared, lambda _: None).simulations.values()
    return simulation.step_s.tolist()


@settings(deadline=None, max_examples=40)
@given(spec=specs() | specs(wild=True), cluster=st.sampled_from(("small", "older")))
def test_every_verb_makes_the_same_step_or_refuses_it_in_the_same_words(
    files: dict[str, str], spec: StepSpec, cluster: str
) -> None:
    there = CLUSTERS[cluster]
    try:
        made = step_of(spec, there)
        step = driven_step(made, there)
    except UsageError as refused:
        for make in (
            lambda: asked_of_model(spec, there, {}),
            lambda: proxy_at(spec, files[cluster]),
        ):
            with pytest.raises(UsageError) as other:
                make()
            assert sentence(other.value) == str(refused)
        return
    asked = asked_of_model(spec, there, {})
    (case,) = asked.cases
    assert sent(case.program) == sent(step.program)
    assert asked.facts_of[case.name]["spec"] == asdict(step.spec)
    simulated = proxy_at(spec, files[cluster])
    assert (simulated.spec, sent(simulated.program)) == (step.spec, sent(step.program))
    assert simulated.model_memory == asked.facts_of[case.name]["model_memory"]
    alone = replace(step.spec, software=None)  # it drives what a cluster has
    dry = proxy_of(alone, ProxyOptions())
    assert (dry.spec, dry.program.lists) == (alone, made.program.lists)
    cell = scaled(step.spec, there)
    assert sent(cell.cases[0].program) == sent(step.program)
    # What is filled in asks for the same once more.
    again = driven_step(step_of(step.spec, there), there)
    assert (again.spec, sent(again.program), again.memory) == (
        step.spec,
        sent(step.program),
        step.memory,
    )


@settings(deadline=None, max_examples=10)
@given(spec=specs(), cluster=st.sampled_from(("small", "older")))
def test_every_verb_gives_it_the_same_time_to_the_last_digit(
    files: dict[str, str], spec: StepSpec, cluster: str
) -> None:
    there = CLUSTERS[cluster]
    try:
        step = driven_step(step_of(spec, there), there)
    except UsageError:
        assume(False)
    seconds = step_s(asked_of_model(spec, there, {}))
    proxied = simulate_proxy(proxy_at(spec, files[cluster]), HOW)
    assert proxied.simulation.step_s.tolist() == seconds
    assert step_s(scaled(step.spec, there)) == seconds


@pytest.mark.parametrize("more", [{}, {"bucket": 1 << 16, "strategy": "overlapped_sharded"}])
def test_a_training_here_is_simulated_as_the_step_of_its_words(more: dict[str, Any]) -> None:
    spec = StepSpec(model="gpt2-nano", ranks=4, batch=16, precision="fp32", micro_batches=2, **more)
    job = live_job(replace(spec, ranks=None, strategy=None), DataOptions(), LiveOptions())
    strategy = spec.strategy or "replicated"
    live = training_step(strategy, job, job.model.config(vocabulary=256), ranks=4)
    step = step_of(spec)
    assert (live.spec, sent(live.program), live.memory) == (
        step.spec,
        sent(step.program),
        step.memory,
    )


def test_simulate_and_a_proxy_on_a_cluster_answer_alike() -> None:
    """They once gave 0.281 s and 1.101 s for these words."""
    spec = StepSpec(model="gpt3-13B", ranks=32, tensor=8, pipeline=2, strategy="overlapped")
    pod = cluster_named("dgx-h100-pod")
    seconds = step_s(asked_of_model(spec, pod, {}))
    assert simulate_proxy(proxy_at(spec, "dgx-h100-pod"), HOW).simulation.step_s.tolist() == seconds
    assert seconds[-1] == pytest.approx(0.412, abs=5e-4)
    assert (
        proxy_of(spec, ProxyOptions(dry_run=True)).program.lists == step_of(spec, pod).program.lists
    )


def test_defaults_are_filled_in() -> None:
    plain = step_of(StepSpec(model="gpt2"), CLUSTERS["small"]).spec
    assert (plain.model, plain.ranks, plain.data, plain.tensor) == ("gpt2-124M", 8, 8, 1)
    assert (plain.batch, plain.micro_batches, plain.rows) == (64, 1, 8)
    assert (plain.precision, plain.reduce_dtype, plain.bucket) == ("bf16", "fp32", 25 << 20)
    assert (plain.strategy, plain.zero, plain.schedule) == ("replicated", 0, None)
    cut = step_of(StepSpec(model="gpt2", pipeline=2, tensor=2, schedule="interleaved")).spec
    assert (cut.ranks, cut.batch, cut.micro_batches, cut.rows) == (4, 8, 8, 1)
    assert cut.interleave == 2
    assert step_of(StepSpec(model="gpt2"), CLUSTERS["older"]).spec.precision == "fp32"


def test_a_model_that_is_given_gets_the_dimensions_that_are_asked_for() -> None:
    found = model_of(StepSpec(model="gpt2", layers=3), model_named("llama3-8B"))
    assert isinstance(found, Transformer)
    assert (found.layers, found.hidden) == (3, 4096)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"batch": 32}, (32, 8, 1)),
        ({"batch": 32, "micro_batches": 2}, (32, 2, 4)),
        ({"batch": 32, "rows": 2}, (32, 4, 2)),
        ({"rows": 2}, (64, 8, 2)),
        ({"micro_batches": 2, "rows": 2}, (16, 2, 2)),
    ],
)
def test_the_batch_is_rows_times_micro_batches_times_replicas(given: Any, found: Any) -> None:
    spec = step_of(StepSpec(model="gpt2", ranks=8, pipeline=2, **given)).spec
    assert (spec.batch, spec.micro_batches, spec.rows) == found
