"""``proxy``: How would this model's traffic run here?"""

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.measuring import oversubscription, ranks_here, teller
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, say_json, writing
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import UsageError
from steptime.replay.options import ProxyOptions
from steptime.runs import run_folder
from steptime.study.options import HowOptions
from steptime.workloads.spec import StepSpec
from steptime.world import detect

if TYPE_CHECKING:
    from steptime.api.results import Run
    from steptime.replay.workload import Proxy
    from steptime.runs.proxy_record import ProxyRecord, ProxyStep


def proxy(
    model: Annotated[str, Parameter(name="MODEL|list|describe")],
    described: Annotated[str | None, Parameter(name="MODEL")] = None,
    /,
    *,
    step: Flat[StepSpec] = StepSpec(),
    asked: Flat[ProxyOptions] = ProxyOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """How would this model's traffic run here, or there?

    Sends what a training step of the model sends, with something in place of its computing. With
    --cluster that is simulated.

    Parameters
    ----------
    model
        A model or its file (MODEL.toml, or the config.json of Hugging Face) or, with --compat, an
        original proxy such as cosmoflow, dlrm or resnet152; or list, for all models there are, or
        describe.
    described
        The model to describe, by its name or file: its dimensions, parameters, FLOP and bytes,
        layer by layer.

    """
    if described is not None or model in ("list", "describe"):
        _tell_of_models(model, described, output)
        return 0
    from steptime.replay.workload import proxy_of

    def plan(size: int | None) -> "Proxy":
        return proxy_of(replace(step, model=model, ranks=size), asked)

    if asked.dry_run:
        _dry_run(plan(_ranks(ranks, asked)), asked, output)
        return 0
    if asked.cluster and not asked.live:
        _refuse_live(ranks)
        _simulate(plan(ranks.ranks), asked, output)
        return 0

    def check(size: int) -> None:
        from steptime.replay.backends import check_here

        planned = plan(size)
        check_here(planned, ranks.backend, ranks_here(size))
        if planned.cluster:
            from steptime.study.simulated_proxy import check_simulated

            check_simulated(planned, HowOptions(fidelity=asked.fidelity))

    def work(place: Place) -> None:
        _replay(plan(place.world.size), place, asked, ranks, output)

    return on_ranks("proxy", ranks, output, 4, check, work)


def _tell_of_models(what: str, model: str | None, output: OutputOptions) -> None:
    from steptime.report.model import print_model, print_models, record, records
    from steptime.workloads.models import model_named

    if (what == "describe") != (model is not None) or what not in ("list", "describe"):
        raise UsageError("write steptime proxy MODEL, proxy list or proxy describe MODEL")
    if output.json:
        models = {"model": record(model_named(model))} if model else {"models": records()}
        say_json({"verb": "proxy", "source": "computed", **models})
        return
    say(output.rendered(lambda c: print_model(c, model_named(model)) if model else print_models(c)))


def _ranks(ranks: RankOptions, asked: ProxyOptions) -> int | None:
    """How many ranks there are to be where none is started; None leaves it to the cluster."""
    world = detect(os.environ)
    if ranks.ranks or world:
        return ranks.ranks or (world.size if world else 1)
    return None if asked.cluster else 4


def _refuse_live(ranks: RankOptions) -> None:
    """Raise UsageError for what is about live ranks, where there are to be none."""
    given, default = asdict(ranks), asdict(RankOptions())
    for name in ("threads", "backend", "timeout"):
        if given[name] != default[name]:
            raise UsageError(
                f"--{name} is about live ranks, and only --live starts some: leave it out"
            )
    if detect(os.environ):
        raise UsageError(
            "--cluster without --live is simulated in one process: run it without the launcher, or "
            "add --live"
        )


def _dry_run(plan: "Proxy", asked: ProxyOptions, output: OutputOptions) -> None:
    from steptime.program.stored import write_programs
    from steptime.replay.workload import planned
    from steptime.report.proxy_lines import plan_lines
    from steptime.runs.proxy_record import proxy_json
    from steptime.study.programs import proxy_programs

    record = proxy_json(planned(plan)) if output.out or output.json else {}
    if output.out is not None:
        with run_folder.created(output.out), writing(output.out / run_folder.RECORD):
            write_programs(output.out, proxy_programs(plan))
            run_folder.write_record(output.out, record)
    say_json(record) if output.json else say("\n".join(plan_lines(plan, asked)))


def _simulate(plan: "Proxy", asked: ProxyOptions, output: OutputOptions) -> None:
    from steptime.api.proxies import simulated
    from steptime.report.proxy_lines import plan_lines, simulated_lines

    teller(0, output, aside=output.json)("\n".join(plan_lines(plan, asked)))
    run = simulated(plan, asked)
    path = output.out or run_folder.default_path("proxy", datetime.now())
    with run_folder.created(path) as out, writing(out):
        run = run.written_to(out)
    _answer(run, simulated_lines, output)


def _replay(
    plan: "Proxy", place: Place, asked: ProxyOptions, ranks: RankOptions, output: OutputOptions
) -> None:
    from steptime.replay.backends import transport_of
    from steptime.replay.live import check_right, replay_proxy
    from steptime.report.proxy_lines import answer_lines, plan_lines

    transport = transport_of(ranks.backend)
    world = transport.world
    tell = teller(world.rank, output, aside=output.json)
    tell("\n".join([*oversubscription(place), *plan_lines(plan, asked)]))
    replayed = replay_proxy(plan, transport, asked, ranks.backend)
    if world.rank == 0:
        from steptime.api.proxies import measured
        from steptime.cli.answer import record_place

        there = _beside(plan, asked, place.out) if plan.cluster else None
        where = record_place(place, ranks)
        run = measured(plan, replayed, asked, where, world.library, there)
        with writing(place.out):
            run = run.written_to(place.out)
        if not replayed.wrong:
            _answer(run, answer_lines, output)
    world.barrier()  # an error here would end rank 0 before it has written
    check_right(replayed, ranks.backend)


def _beside(plan: "Proxy", asked: ProxyOptions, out: Path) -> "ProxyStep":
    """The same step simulated, which leaves a trace of its own."""
    from steptime.study.simulated_proxy import simulate_live_proxy
    from steptime.timeline import write_chrome_trace

    one = simulate_live_proxy(plan, HowOptions(fidelity=asked.fidelity))
    with writing(out):
        write_chrome_trace(out / "simulated.json.gz", one.simulation.timeline)
    return one.step


def _answer(
    run: "Run", lines: Callable[["ProxyRecord"], Iterator[str]], output: OutputOptions
) -> None:
    from steptime.runs.record import to_json

    if output.json:
        say_json(to_json(run.record))
    elif run.record.proxy:
        say("\n".join([*lines(run.record.proxy), f"run: {run.record.run}"]))
