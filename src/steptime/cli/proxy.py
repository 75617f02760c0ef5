"""``proxy``: How would this model's traffic run here?"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime.cli.measuring import oversubscription, provenance, ranks_here, teller
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, writing
from steptime.cli.proxy_lines import answer_lines, plan_lines, simulated_lines
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import SteptimeError, UsageError
from steptime.replay.options import ProxyOptions
from steptime.runs import run_folder
from steptime.study.options import HowOptions
from steptime.workloads.spec import StepSpec
from steptime.world import detect

if TYPE_CHECKING:
    from steptime.replay.figures import Replayed
    from steptime.replay.workload import Proxy


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
    from steptime.replay.workload import check_memory, proxy_of

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
        from steptime.host_memory import available_bytes

        here = ranks_here(size)
        _check_backend(ranks.backend, here)
        planned = plan(size)
        check_memory(planned, ranks.backend, here, available_bytes())
        if planned.cluster:
            _check_simulated(planned, _how(asked))

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
        say(json.dumps({"verb": "proxy", "source": "computed", **models}))
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


def _how(asked: ProxyOptions) -> HowOptions:
    """How it is simulated, where that is asked for."""
    return HowOptions(fidelity=asked.fidelity)


def _check_simulated(plan: "Proxy", how: HowOptions) -> None:
    """Raise UsageError where its step cannot be simulated on the cluster."""
    from steptime.study.simulate import prepare_all
    from steptime.study.simulated_proxy import asked_of_proxy

    asked = asked_of_proxy(plan)
    prepare_all(asked, asked.cluster, how)


def _simulate(plan: "Proxy", asked: ProxyOptions, output: OutputOptions) -> None:
    from steptime.program.stored import write_programs
    from steptime.replay.stored import proxy_programs
    from steptime.replay.workload import plan_record
    from steptime.report import write_report
    from steptime.runs.record import run_record
    from steptime.study.simulated_proxy import bytes_of, figures_of, simulate_proxy
    from steptime.timeline import write_chrome_trace

    tell = teller(0, output, aside=output.json)
    tell("\n".join(plan_lines(plan, asked)))
    one = simulate_proxy(plan, _how(asked))
    out = output.out or run_folder.default_path("proxy", datetime.now())
    record = {
        "verb": "proxy",
        "run": str(out),
        "ranks": plan.program.ranks,
        **plan_record(plan),
        **figures_of(one),
        "environment": run_folder.environment(),
    }
    for row, moved in zip(record["per_rank"], bytes_of(one), strict=True):
        row["simulated_bytes"] = moved
    run_folder.create(out)
    with writing(out):
        write_programs(out, proxy_programs(plan))
        run_folder.write_record(out, record)
        write_chrome_trace(out / "trace.json.gz", one.simulation.timeline)
        write_report(out / "report.html", run_record(record), one.simulation.timeline)
    if output.json:
        say(json.dumps(record))
    else:
        say("\n".join([*simulated_lines(record), f"run: {out}"]))


def _check_backend(backend: str, here: int) -> None:
    if backend == "nccl":
        from steptime.measure.place import check_gpus

        check_gpus(here)
    if backend == "mpi":
        from steptime.world.mpi import check_mpi

        check_mpi()


def _dry_run(plan: "Proxy", asked: ProxyOptions, output: OutputOptions) -> None:
    from steptime.program.stored import write_programs
    from steptime.replay.stored import proxy_programs
    from steptime.replay.workload import plan_record

    record = {"verb": "proxy", "source": "computed", "dry_run": True, **plan_record(plan)}
    out = output.out
    if out is not None:
        run_folder.create(out)
        with writing(out / "run.json"):
            write_programs(out, proxy_programs(plan))
            run_folder.write_record(out, record)
    if output.json:
        say(json.dumps(record))
        return
    say("\n".join(plan_lines(plan, asked)))


def _replay(
    plan: "Proxy", place: Place, asked: ProxyOptions, ranks: RankOptions, output: OutputOptions
) -> None:
    from steptime.program.stored import write_programs
    from steptime.replay.backends import stand_in, transport_of
    from steptime.replay.figures import figures, gathered
    from steptime.replay.replay import replay
    from steptime.replay.stored import proxy_programs
    from steptime.replay.workload import plan_record
    from steptime.report import write_report
    from steptime.runs.record import run_record
    from steptime.timeline import write_chrome_trace

    transport = transport_of(ranks.backend)
    world = transport.world
    tell = teller(world.rank, output, aside=output.json)
    tell("\n".join([*oversubscription(place), *plan_lines(plan, asked)]))
    replayed = replay(
        plan.program,
        transport,
        steps=asked.steps,
        warmup=asked.warmup,
        compute=stand_in(plan.compute, ranks.backend),
        device=plan.device,
        verify=asked.verify,
        seed=asked.seed,
        messages=plan.messages,
    )
    run = gathered(world, replayed, plan.program)
    if world.rank == 0:
        record = {
            "verb": "proxy",
            **provenance(place, ranks),
            "library": world.library,
            **plan_record(plan),
            **figures(run),
            "steps": asked.steps,
            "warmup": asked.warmup,
            "environment": run_folder.environment(own=place.world.size * place.threads),
        }
        for one, wire in zip(record["per_rank"], _wires(run), strict=False):
            one["wire_bytes"] = wire
        if plan.cluster:
            record |= _beside(plan, asked, record, place.out)
        with writing(place.out):
            write_programs(place.out, proxy_programs(plan))
            run_folder.write_record(place.out, record)
            write_chrome_trace(place.out / "trace.json.gz", run.timeline)
            write_report(place.out / "report.html", run_record(record), run.timeline)
        if not run.wrong:
            if output.json:
                say(json.dumps(record))
            else:
                say("\n".join([*answer_lines(record, asked), f"run: {place.out}"]))
    world.barrier()  # an error here would end rank 0 before it has written
    if run.wrong:
        raise SteptimeError(
            f"{run.wrong:,} of {run.checked:,} elements that were received are wrong: "
            f"{ranks.backend} has moved something else"
        )


def _beside(
    plan: "Proxy", asked: ProxyOptions, record: Mapping[str, Any], out: Path
) -> dict[str, Any]:
    """The same simulated, which leaves a trace of its own."""
    from steptime.study.simulated_proxy import error, figures_of, simulate_proxy
    from steptime.timeline import write_chrome_trace

    one = simulate_proxy(plan, _how(asked))
    simulated = figures_of(one)
    with writing(out):
        write_chrome_trace(out / "simulated.json.gz", one.simulation.timeline)
    return {"simulated": simulated, "error": error(record, simulated)}


def _wires(run: "Replayed") -> list[dict[str, int]]:
    if run.wire is None:
        return []
    return [{"sent": round(sent), "received": round(got)} for sent, got in run.wire.tolist()]
