"""``plan``: Which layout of this model on that cluster, and how sure is that?"""

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions
from steptime.errors import UsageError
from steptime.plan.options import GoalOptions, PlanOptions, parse_price, parse_tokens, with_layout
from steptime.points.options import SweepOptions

if TYPE_CHECKING:
    from steptime.api.planning import PlanResult


def plan(
    subject: Annotated[str | None, Parameter(name="MODEL|ROWS.csv")] = None,
    /,
    *,
    validate: bool = False,
    goal: Flat[GoalOptions] = GoalOptions(),
    layout: Flat[PlanOptions] = PlanOptions(),
    sweep: Flat[SweepOptions] = SweepOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
) -> None:
    """Which layout of this model on that cluster, and how sure is that?

    Searches how ranks may share a model, within the memory of a cluster's devices, and shows the
    ten fastest steps. Every figure is computed.

    Parameters
    ----------
    subject
        A transformer that steptime proxy list shows (llama3-70B, gpt3-175B, …), its file, or gpt
        or llama with its sizes, as --layers 24 --hidden 2048 --heads 16; with --validate a table
        of measured steps.
    validate
        How accurate is it? Predict every measured step of a table, by default the shipped one, and
        tell the errors.

    """
    if validate:
        _refuse_with_validate(goal, layout, sweep)
        _validate(subject, output)
        return
    if subject is None:
        raise UsageError("nothing says what to plan: give a model, as llama3-70B, and --cluster")
    if goal.cluster is None:
        raise UsageError(
            "nothing says on which cluster: give --cluster a file, or a name that steptime "
            "cluster list shows"
        )
    options = layout if goal.explain is None else with_layout(layout, goal.explain)
    from steptime.api.arguments import ranks_of
    from steptime.api.planning import plan_of
    from steptime.points.mpi import refuse_copies
    from steptime.world import detect

    world = detect(os.environ)
    refuse_copies(world.size if world else 1, "plan")
    found = plan_of(
        subject,
        goal.cluster,
        software=goal.software,
        gpus=() if goal.gpus is None else ranks_of(goal.gpus),
        tokens=None if goal.tokens is None else parse_tokens(goal.tokens),
        price=None if goal.cost is None else parse_price(goal.cost),
        simulate=goal.simulate,
        sweep=sweep,
        options=options,
    )
    _write(found, output, explained=goal.explain is not None)


def _refuse_with_validate(goal: GoalOptions, layout: PlanOptions, sweep: SweepOptions) -> None:
    """Raise UsageError for an option that --validate would not read."""
    given = [
        one.name
        for options in (goal, sweep)
        for one in fields(options)
        if getattr(options, one.name) != one.default
    ]
    for name in (*given, *layout.given()):
        raise UsageError(
            f"--{name.replace('_', '-')} is about a plan, and --validate predicts what was "
            "measured: leave one out"
        )


def _write(found: "PlanResult", output: OutputOptions, *, explained: bool) -> None:
    """Write run.json and report.html, then print the answer."""
    from datetime import datetime

    from steptime.cli.printing import say, say_json, writing
    from steptime.report.plan_lines import print_explained
    from steptime.runs import run_folder
    from steptime.runs.plan import plan_json

    with run_folder.created(output.out or run_folder.default_path("plan", datetime.now())) as out:
        found = replace(found, record=replace(found.record, run=str(out)))
        with writing(out):
            found.write(out)
    if output.json:
        say_json(plan_json(found.record))
        return
    show = (lambda console: print_explained(console, found.record)) if explained else found.print
    say(f"{output.rendered(show)}\n\nreport: {out / 'report.html'}")


def _validate(rows: str | None, output: OutputOptions) -> None:
    """Print how far predictions are from measured steps."""
    from steptime.cli.printing import say, say_json
    from steptime.plan.validate import validate
    from steptime.report.accuracy_lines import accuracy_lines

    found = validate(None if rows is None else Path(rows)).json()
    if output.json:
        say_json(found)
        return
    say("\n".join(accuracy_lines(found, output.console().width)))
