"""The steps that a simulation is asked for: of a model, of a preset, or of a program's files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.predict.driven import driven_step
from steptime.program import Program
from steptime.program.chakra import read_chakra
from steptime.program.rescale import rescaled
from steptime.record.traces.chakra_json import is_chakra_json, read_chakra_json
from steptime.record.traces.opening import begins_as_trace, is_trace_file, open_trace
from steptime.record.traces.program import trace_program
from steptime.replay.spread import spread
from steptime.runs.expected import Expected, expected_of
from steptime.runs.memory import memory_on, with_fits
from steptime.runs.utilisation import Utilisation, step_work, utilisation
from steptime.strategies import live_strategies, simulated_strategy
from steptime.strategies.calls import not_simulated
from steptime.study.run_programs import programs_of
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
    measured of a preset's. ``steps``: those of a model, by the names of their cases.
    """

    cluster: Cluster
    cases: Sequence[Case]
    facts: Mapping[str, Any]
    facts_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tokens: int | None = None
    published: Sequence[Published] = ()
    steps: Mapping[str, Step] = field(default_factory=dict)

    def software_of(self, case: str) -> str | None:
        """What drives the devices in the step of a case; None where that is not said."""
        step = self.steps.get(case)
        return None if step is None else step.spec.software

    def figures_of(self, case: str, seconds: float) -> tuple[Utilisation | None, Expected | None]:
        """What a step of a case that takes so long uses of its devices, and its expected error."""
        step = self.steps.get(case)
        if step is None:
            return None, None
        used = utilisation(step_work(step.model, step.spec, self.cluster.device), seconds)
        return used, expected_of(step.model, step.spec, self.cluster, seconds)


def is_program(workload: str) -> bool:
    """Whether a workload is a program's files rather than a model, by its name or its file."""
    if is_model_file(workload):
        return is_trace_file(Path(workload)) or is_chakra_json(Path(workload))
    return "/" in workload or workload.endswith(".et") or Path(workload).exists()


def asked_of_program(path: Path, cluster: Cluster, algorithms: Mapping[str, str]) -> Asked:
    """The step that a folder of Chakra execution traces holds, or the median one of a trace.

    Raises UsageError where a file or a folder holds none.
    """
    if path.is_file() and not begins_as_trace(path):
        raise UsageError(
            f"{path} is one file: name a folder of Chakra traces, one of each rank, or a trace of "
            "torch.profiler"
        )
    program, summary = _program(path)
    return _asked_of_programs([program], cluster, algorithms, summary)


def asked_of_run(
    path: Path, cluster: Cluster, algorithms: Mapping[str, str], ranks: int | None = None
) -> Asked:
    """The steps that a run's folder holds, as they ran; on other ``ranks`` if so many are asked.

    Raises UsageError where it holds none, or they cannot run on so many.
    """
    programs = [one.program for one in programs_of(path)]
    if ranks is not None:
        programs = [rescaled(one, ranks) for one in programs]
    return _asked_of_programs(programs, cluster, algorithms)


def _asked_of_programs(
    programs: Sequence[Program],
    cluster: Cluster,
    algorithms: Mapping[str, str],
    summary: str = "",
) -> Asked:
    cases = [Case(name=o.name, summary=summary, program=o, algorithms=algorithms) for o in programs]
    return Asked(cluster=cluster, cases=cases, facts={"model": programs[0].name})


def _program(path: Path) -> tuple[Program, str]:
    """The program of a file or a folder, and what is to be said of it."""
    if path.is_file() and is_chakra_json(path):
        return read_chakra_json(path)
    if any(path.glob("*.et")) or not begins_as_trace(path):
        return read_chakra(path), ""
    return trace_program(open_trace([path])), ""


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
        unknown = sentence.startswith("there is no model") and not sentence.endswith("?")
        listed = unknown and not is_model_file(spec.model)
        others = ", or a folder of Chakra .et files by its path" if listed else ""
        raise UsageError(sentence + others) from None
    specs = each_of(spec, model, cluster)
    steps = [driven_step(step_of(one, cluster, model=model), cluster) for one in specs]
    return asked_of_steps(steps, cluster, algorithms, named=spec.strategy is not None)


def asked_of_steps(
    steps: Sequence[Step], cluster: Cluster, algorithms: Mapping[str, str], *, named: bool = True
) -> Asked:
    """Steps of one model that differ in their strategy, whose names the cases have.

    ``named``: whether the strategies were asked for by their names.
    """
    return Asked(
        cluster=cluster,
        cases=[case_of(step, algorithms) for step in steps],
        facts=_facts(steps[0]),
        facts_of=_told_what_fits(steps, cluster, named),
        tokens=steps[0].tokens,
        steps={str(step.spec.strategy): step for step in steps},
    )


def _told_what_fits(
    steps: Sequence[Step], cluster: Cluster, named: bool
) -> dict[str, dict[str, Any]]:
    """The facts of each step by its strategy; where none fits, that of the least what would."""
    facts = {str(step.spec.strategy): facts_of(step, cluster) for step in steps}
    least = min(steps, key=lambda step: facts[str(step.spec.strategy)]["model_memory"].total)
    name = str(least.spec.strategy)
    said = {} if named or name == "replicated" else {"strategy": name}
    facts[name]["model_memory"] = with_fits(facts[name]["model_memory"], least, cluster, **said)
    return facts


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
        "model_memory": memory_on(step, cluster),
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
        "hidden": model.hidden,
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
