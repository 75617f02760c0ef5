"""``simulate``: How long would it take there?"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions
from steptime.cli.printing import tell_left_out
from steptime.errors import UsageError
from steptime.study.options import HowOptions
from steptime.workloads.spec import StepSpec

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from steptime.cluster import Cluster
    from steptime.study.cases import Asked


def simulate(
    workload: Annotated[str | None, Parameter(name="MODEL|PROGRAM")] = None,
    /,
    *,
    cluster: str | None = None,
    preset: str | None = None,
    flows: Path | None = None,
    what_if: str | None = None,
    ideal: bool = False,
    sensitivity: bool = False,
    ranks: int | None = None,
    step: Flat[StepSpec] = StepSpec(),
    how: Flat[HowOptions] = HowOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
) -> None:
    """How long would it take there?

    Simulates a training step on a cluster that you need not have. Every figure is simulated.

    Parameters
    ----------
    workload
        A model that steptime proxy list shows (gpt2-124M, llama3-70B, resnet50, …), or its file
        (MODEL.toml, or the config.json of Hugging Face); or a program: the folder of a run, as
        steptime record leaves it, one of Chakra .et files, one a rank, or another tool's trace.
    ranks
        Ranks in all; default: as many as the cluster has places for. Of a run: let its
        data-parallel groups grow, each rank working as it did; default: those that it had.
    cluster
        A cluster file, or a name that `steptime cluster list` shows.
    preset
        A published run, with its cluster and its published figures beside: marenostrum5-nine.
    flows
        Simulate traffic instead: a CSV file with the columns src,dst,bytes,start_s, of which src
        and dst are devices.
    what_if
        The same once more with other figures of the cluster, as bandwidth=2x,latency=0,
        compute=1.5x, or other speeds of computations by name, as forward=2x, and of a rank, as
        rank 3=0.5x or rank 3 forward=0.5x.
    ideal
        The same once more on a network of no latency and infinite bandwidth.
    sensitivity
        Tell which links or devices bound the step.

    """
    changes = _changes(what_if, ideal=ideal)
    spec = replace(step, ranks=ranks)
    _check_one_subject({f"'{workload}'": workload, "--preset": preset, "--flows": flows})
    if flows is not None:
        from steptime.api.simulation import refuse_step

        refuse_step(spec, str(flows))
        _refuse_step_options(how, sensitivity=sensitivity)
        _simulate_flows(flows, _cluster(cluster), changes, output)
        return
    asked = _asked(workload, preset, cluster, spec, how)
    of_model = workload is not None and not Path(workload).is_dir()
    if of_model and spec.strategy in (None, "all") and not output.quiet:
        tell_left_out()
    _simulate(asked, how, changes, sensitivity, output)


def _check_one_subject(subjects: dict[str, object]) -> None:
    """Raise UsageError where not exactly one of ``subjects`` says what to simulate."""
    given = [name for name, value in subjects.items() if value]
    if len(given) != 1:
        what = f"{' and '.join(given)} both say" if given else "nothing says"
        raise UsageError(
            f"{what} what to simulate: give one of a model, a program, --preset or --flows"
        )


def _changes(what_if: str | None, *, ideal: bool) -> str | None:
    """What is changed of the cluster, if anything is."""
    from steptime.cluster.what_if import IDEAL

    if what_if is not None and ideal:
        raise UsageError("--ideal and --what-if both say what to change: leave one out")
    return IDEAL if ideal else what_if


def _cluster(name: str | None) -> "Cluster":
    from steptime.cluster.files import cluster_named

    if name is None:
        raise UsageError(
            "nothing says on which cluster: give --cluster a file, or a name that steptime "
            "cluster list shows"
        )
    return cluster_named(name)


def _folder(output: OutputOptions) -> "AbstractContextManager[Path]":
    from datetime import datetime

    from steptime.runs import run_folder

    return run_folder.created(output.out or run_folder.default_path("simulate", datetime.now()))


def _refuse_step_options(how: HowOptions, *, sensitivity: bool) -> None:
    """Raise UsageError where an option about steps is given with flows."""
    given = [*how.given(), *["sensitivity"] * sensitivity]
    if given:
        raise UsageError(f"--{given[0]} is about a step, and flows have none: leave it out")


def _asked(
    workload: str | None,
    preset: str | None,
    cluster: str | None,
    spec: StepSpec,
    how: HowOptions,
) -> "Asked":
    from steptime.api.simulation import asked_of, asked_of_preset

    if preset is not None:
        if cluster is not None:
            raise UsageError(f"the preset {preset} has its own cluster: leave --cluster out")
        return asked_of_preset(preset, spec, how)
    assert workload is not None  # noqa: S101
    return asked_of(workload, _cluster(cluster), spec, how)


def _simulate(
    asked: "Asked", how: HowOptions, changes: str | None, sensitivity: bool, output: OutputOptions
) -> None:
    from steptime.api.simulation import prepared
    from steptime.cli.answer import write_answer

    ready = prepared(asked, how, changes)
    with _folder(output) as out:
        with output.tracking() as track:
            run = ready.run(sensitivity=sensitivity, track=track)
        write_answer(run, out, output)


def _simulate_flows(
    path: Path, cluster: "Cluster", changes: str | None, output: OutputOptions
) -> None:
    from steptime.api.flows import flows
    from steptime.cli.answer import write_flows

    found = flows(path, cluster, what_if=changes)
    with _folder(output) as out:
        write_flows(found, out, output)
