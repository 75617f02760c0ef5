"""The steps that a simulation is asked for: of a model, of a preset, or of a program's files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.program.chakra import read_chakra
from steptime.replay.spread import memory_of, spread
from steptime.strategies import live_strategies, simulated_strategy
from steptime.strategies.calls import not_simulated
from steptime.workloads.models import Model, Transformer, is_model_file
from steptime.workloads.presets import Case, Preset, Published
from steptime.workloads.resolve import model_of, runs_on
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import Step, step_of
from steptime.workloads.steps import DEFAULT_STRATEGY, has_own_step
from steptime.workloads.sync import strategies_of_many_axes, strategy_of_zero


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Steps to simulate on a cluster.

    ``tokens`` that each trains on, None where nothing is known of them. ``facts``: what run.json
    says of them beside their figures, ``facts_of`` of a case by its name. ``published``: what was
    measured of a preset's.
    """

    cluster: Cluster
    cases: Sequence[Case]
    facts: Mapping[str, Any]
    facts_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tokens: int | None = None
    published: Sequence[Published] = ()


def is_program(workload: str) -> bool:
    """Whether a workload is a program's files rather than a model, by its name or its file."""
    if is_model_file(workload):
        return False
    return "/" in workload or workload.endswith(".et") or Path(workload).is_dir()


def asked_of_program(path: Path, cluster: Cluster, algorithms: Mapping[str, str]) -> Asked:
    """The step that a folder of Chakra execution traces holds.

    Raises UsageError when it holds none, or is one of them.
    """
    if path.is_file():
        raise UsageError(f"{path} is one file: name a folder of Chakra traces, one of each rank")
    program = read_chakra(path)
    case = Case(name=program.name, summary="", program=program, algorithms=algorithms)
    return Asked(cluster=cluster, cases=[case], facts={"model": program.name})


def asked_of_preset(preset: Preset, cluster: Cluster, algorithms: Mapping[str, str]) -> Asked:
    """A published run in all its variants, with the algorithms of each but those given."""
    cases = [replace(case, algorithms={**case.algorithms, **algorithms}) for case in preset.cases]
    facts = {"model": preset.title, "preset": preset.name, "preset_source": preset.source}
    return Asked(cluster=cluster, cases=cases, facts=facts, published=preset.published)


def asked_of_model(
    spec: StepSpec,
    cluster: Cluster,
    algorithms: Mapping[str, str],
    given: Model | None = None,
) -> Asked:
    """The step of a model under each strategy asked for, which may be several: see ``each_of``.

    ``given``: the model itself, where the specification does not name it.

    Raises UsageError when there is no such model, a strategy cannot run there, or the ranks or the
    batch do not fit the model or the cluster.
    """
    try:
        model = model_of(spec, given)
    except UsageError as error:
        sentence = str(error)
        complete = is_model_file(spec.model) or sentence.endswith("?")
        others = "" if complete else ", or a folder of Chakra .et files by its path"
        raise UsageError(sentence + others) from None
    steps = [step_of(one, cluster, model=model) for one in each_of(spec, model, cluster)]
    return asked_of_steps(steps, cluster, algorithms)


def asked_of_steps(steps: Sequence[Step], cluster: Cluster, algorithms: Mapping[str, str]) -> Asked:
    """Steps of one model that differ in their strategy, whose names the cases have."""
    return Asked(
        cluster=cluster,
        cases=[case_of(step, algorithms) for step in steps],
        facts=_facts(steps[0]),
        facts_of={str(step.spec.strategy): facts_of(step, cluster) for step in steps},
        tokens=steps[0].tokens,
    )


def case_of(step: Step, algorithms: Mapping[str, str]) -> Case:
    """The step as a case that is named after its strategy."""
    name = str(step.spec.strategy)
    return Case(
        name=name,
        summary=simulated_strategy(name).summary,
        program=replace(step.program, name=name),
        algorithms=algorithms,
    )


def facts_of(step: Step, cluster: Cluster) -> dict[str, Any]:
    """What run.json holds of a case: its specification, where its ranks are, what they keep."""
    host_of = cluster.host_of[cluster.placed(step.program.ranks)]
    return {
        "spec": asdict(step.spec),
        "placement": spread(step.program, host_of),
        "model_memory": memory_of(step.memory, cluster.device.memory),
    }


def _facts(step: Step) -> dict[str, Any]:
    """What run.json holds of the model and how it is trained."""
    return {
        "model": step.title,
        "model_config": _config(step.model, step.spec),
        "precision": step.spec.precision,
        "reduce_dtype": step.spec.reduce_dtype,
        "batch": step.spec.batch,
        "micro_batches": step.spec.micro_batches,
    }


def _config(model: Model, spec: StepSpec) -> dict[str, Any] | None:
    """The dimensions of a transformer as ``train`` calls them; None of another model."""
    if not isinstance(model, Transformer):
        return None
    return {
        "layers": model.layers,
        "heads": model.heads,
        "embd": model.hidden,
        "context": spec.tokens,
        "vocabulary": model.vocabulary,
        "parameters": model.parameters,
    }


def able_strategies(cluster: Cluster) -> list[str]:
    """The strategies of ``all`` on a cluster: those that can be trained, and simulated there."""
    return [
        strategy.name
        for strategy in live_strategies().values()
        if runs_on(strategy, cluster) and not not_simulated(strategy)
    ]


def each_of(spec: StepSpec, model: Model, cluster: Cluster) -> list[StepSpec]:
    """A specification for each strategy that one names: several with commas, or ``all``.

    Where none is named, ``all`` of plain data parallelism that can run on the cluster.
    """
    own = has_own_step(model, shared=spec.shares)
    asked = strategy_of_zero(spec.zero, spec.strategy)
    if asked is None:
        asked = DEFAULT_STRATEGY if own else "replicated" if spec.asks_to_share else "all"
    if asked == "all":
        many = spec.shares or own
        names = list(strategies_of_many_axes()) if many else able_strategies(cluster)
    else:
        names = list(dict.fromkeys(asked.split(",")))
    return [replace(spec, strategy=name, zero=None) for name in names]
