"""``steptime.simulate``: how long a step would take on a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from steptime.api.cells import Track, untracked
from steptime.api.pictures import cluster_of
from steptime.api.results import Run
from steptime.cluster import Cluster
from steptime.cluster.what_if import Change, parse_what_if
from steptime.cluster.what_if import what_if as changed_by
from steptime.errors import UsageError
from steptime.program.what_if import split_what_if, with_speeds
from steptime.simulate.prepare import Prepared, prepare_again
from steptime.simulate.sensitivity import Sensitivity
from steptime.study import cases
from steptime.study.cases import Asked
from steptime.study.options import FidelityName, HowOptions
from steptime.study.programs import simulated_programs
from steptime.study.run_programs import is_run
from steptime.study.simulate import (
    Study,
    bounded,
    bounds_of,
    once_more,
    prepare_all,
    probes_of,
    record,
    study,
)
from steptime.workloads.models import Model
from steptime.workloads.presets import Case, preset_named
from steptime.workloads.spec import StepOptions, StepSpec, spec_of


def simulate(
    model: Model | str | Path,
    cluster: Cluster | str | Path,
    *,
    fidelity: FidelityName = "auto",
    algorithm: str = "",
    steps: int = 2,
    what_if: str | None = None,
    sensitivity: bool = False,
    track: Track = untracked,
    **step: Unpack[StepOptions],
) -> Run:
    """Simulate a training step on a cluster; the result has its figures, timeline and page.

    ``model``: one of ``st.model``, its name or file, the folder of a run, as ``st.record`` leaves
    it, a folder of Chakra .et files, or another tool's trace, as ``st.load`` reads it; ``cluster``:
    one of ``st.cluster``, its name or file. Of a run ``ranks`` lets data-parallel groups grow, each
    rank working as it did. ``step`` says how ranks share the model and how it is trained, by the
    options of the command line: ``ranks``, ``tensor``, ``pipeline``, ``strategy``… With several
    strategies, or where none is named in plain data parallelism, each is simulated.

    ``fidelity``: message, every message shares the links with all others under way; collective,
    each collective by itself, for thousands of ranks; auto, message up to 128 ranks.
    ``algorithm``: as all_reduce=ring. ``steps`` to simulate, of which the last is shown.
    ``what_if``: the same once more on a changed cluster, as bandwidth=2x,latency=0, or with other
    speeds of computations and ranks, as forward=2x,rank 3=0.5x.
    ``sensitivity``: tell which links or devices bound the step. ``track`` may show progress.

    Raises UsageError where the model, the ranks and the cluster do not fit together.

    >>> run = st.simulate("gpt3-13B", "dgx-h100-pod", ranks=32, tensor=8, pipeline=2)
    >>> 0.1 < run.step_s < 1
    True
    >>> run.figures.source
    'simulated'
    >>> run.report("step.html")
    PosixPath('step.html')
    """
    how = HowOptions(fidelity=fidelity, algorithm=algorithm, steps=steps)
    asked = asked_of(model, cluster_of(cluster), spec_of(step), how)
    return prepared(asked, how, what_if).run(sensitivity=sensitivity, track=track)


def asked_of(
    workload: Model | str | Path, cluster: Cluster, spec: StepSpec, how: HowOptions
) -> Asked:
    """The steps of a model, or of a folder: those of a run, or a program's.

    A folder has no options of its own; a run's steps may be asked for on other ranks.
    """
    if not isinstance(workload, str | Path):
        return cases.asked_of_model(spec, cluster, how.algorithms(), workload)
    if is_run(str(workload)):
        refuse_step(replace(spec, ranks=None), str(workload))
        return cases.asked_of_run(Path(workload), cluster, how.algorithms(), spec.ranks)
    if cases.is_program(str(workload)):
        refuse_step(spec, str(workload))
        return cases.asked_of_program(Path(workload), cluster, how.algorithms())
    return cases.asked_of_model(replace(spec, model=str(workload)), cluster, how.algorithms())


def asked_of_preset(name: str, spec: StepSpec, how: HowOptions) -> Asked:
    """The steps of a published run on its cluster; an option about a model is refused."""
    refuse_step(spec, f"the preset {name}")
    preset = preset_named(name)
    return cases.asked_of_preset(preset, cluster_of(preset.cluster), how.algorithms())


def refuse_step(spec: StepSpec, of: str) -> None:
    """Raise UsageError where an option about a model is given with something that is none."""
    if spec.given():
        option = spec.given()[0].replace("_", "-")
        raise UsageError(f"--{option} is about a model, and {of} says it itself: leave it out")


@dataclass(frozen=True)
class WhatIf:
    """Changes of a cluster, and speeds of computations and ranks by ``split_what_if``."""

    of_cluster: tuple[Change, ...]
    speeds: Mapping[str, float]


@dataclass(frozen=True)
class Simulating:
    """Steps that can be simulated, which is certain already, as they are and ``changed``."""

    asked: Asked
    how: HowOptions
    here: Mapping[str, Prepared]
    changes: str | None
    changed: Asked | None
    there: Mapping[str, Prepared]

    def run(self, *, sensitivity: bool, track: Track = untracked) -> Run:
        """Simulate them."""
        base = self._study(self.asked, self.here, track, "steps")
        found = record(base, "")
        if self.changed is not None:
            other = self._study(self.changed, self.there, track, "what if")
            found = replace(found, what_if=once_more(other, self.changes))
        if sensitivity:
            found = bounded(found, _bounds(base, track))
        return Run(found, base.comparison.timeline, tuple(simulated_programs(base)))

    def _study(self, asked: Asked, those: Mapping[str, Prepared], track: Track, what: str) -> Study:
        under_way = iter(track(asked.cases, what))
        next(under_way, None)  # the first begins; that the next is asked for says that one is done

        def advance(_: Case) -> None:
            next(under_way, None)

        return study(asked, asked.cluster, self.how, those, advance)


def prepared(asked: Asked, how: HowOptions, changes: str | None) -> Simulating:
    """What was asked for, prepared for the cluster and, with ``changes``, once more changed.

    Raises UsageError where it cannot be simulated there.
    """
    changed = None if changes is None else changed_steps(asked, read_what_if(asked, changes))
    here = prepare_all(asked, asked.cluster, how)
    there = {} if changed is None else prepared_there(asked, here, changed, how)
    return Simulating(asked, how, here, changes, changed, there)


def read_what_if(asked: Asked, text: str) -> WhatIf:
    """What a text changes of the steps and of their cluster; UsageError where it says nothing."""
    of_cluster, speeds = split_what_if(text, [case.program for case in asked.cases])
    return WhatIf(parse_what_if(of_cluster) if of_cluster else (), speeds)


def changed_steps(asked: Asked, what_if: WhatIf) -> Asked:
    """The same steps with computations, ranks or the cluster changed."""
    cases = asked.cases
    if what_if.speeds:
        cases = [replace(case, program=with_speeds(case.program, what_if.speeds)) for case in cases]
    return replace(asked, cluster=changed_by(asked.cluster, what_if.of_cluster), cases=cases)


def prepared_there(
    asked: Asked, here: Mapping[str, Prepared], changed: Asked, how: HowOptions
) -> Mapping[str, Prepared]:
    """The changed steps prepared, with what ``here`` has of the unchanged where that is the same.

    Raises UsageError where they cannot be simulated.
    """
    if changed.cases is asked.cases:  # the cluster alone is another
        return {name: prepare_again(one, changed.cluster) for name, one in here.items()}
    return prepare_all(changed, changed.cluster, how)


def _bounds(base: Study, track: Track) -> dict[str, list[Sensitivity]]:
    """What bounds the step of each case."""
    probes = [(name, probe) for name in base.simulations for probe in probes_of(base, name)]
    found: dict[str, list[Sensitivity]] = {name: [] for name in base.simulations}
    for name, probe in track(probes, "what bounds it"):
        found[name] += bounds_of(base, name, [probe])
    return found
