"""The verb ``proxy``: a model's traffic on live ranks, or the plan of it."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime import rundir
from steptime.cli.measuring import crowding, ranks_here, teller, whereabouts
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, writing
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import SteptimeError, UsageError
from steptime.replay.options import ProxyOptions
from steptime.units import format_bytes, format_seconds
from steptime.world import detect

if TYPE_CHECKING:
    from steptime.replay.calls import Caller
    from steptime.replay.figures import Replayed
    from steptime.replay.workload import Proxy

_SHOWN = 16
"""So many ranks, or kinds of ranks, are printed; run.json has all."""


def proxy(
    model: Annotated[str, Parameter(name="MODEL|list|describe")],
    described: Annotated[str | None, Parameter(name="MODEL")] = None,
    /,
    *,
    asked: Flat[ProxyOptions] = ProxyOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """How would this model's traffic run here?

    Sends what a training step of the model sends, with something in place of its computing.

    Parameters
    ----------
    model
        A model or, with --compat, an original proxy such as cosmoflow, dlrm or resnet152; or list,
        for all models there are, or describe.
    described
        The model to describe: its dimensions, parameters, FLOP and bytes, layer by layer.

    """
    if described is not None or model in ("list", "describe"):
        _tell_of_models(model, described, output)
        return 0
    from steptime.replay.workload import check_memory, proxy_of

    if asked.dry_run:
        _dry_run(proxy_of(model, asked, _ranks(ranks)), asked, output)
        return 0

    def check(size: int) -> None:
        from steptime.world.room import available_bytes

        _check_backend(ranks.backend)
        here = ranks_here(size)
        check_memory(proxy_of(model, asked, size), ranks.backend, here, available_bytes())

    def work(place: Place) -> None:
        _replay(proxy_of(model, asked, place.world.size), place, asked, ranks, output)

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
    console = output.console()
    with console.capture() as told:
        if model:
            print_model(console, model_named(model))
        else:
            print_models(console)
    say(told.get().rstrip())


def _ranks(ranks: RankOptions) -> int:
    import os

    world = detect(os.environ)
    return ranks.ranks or (world.size if world else 4)


def _check_backend(backend: str) -> None:
    if backend == "nccl":
        raise UsageError("a proxy runs on gloo, steptime or mpi: nccl is still to come")
    if backend == "mpi":
        from steptime.world.mpi import check_mpi

        check_mpi()


def _dry_run(plan: "Proxy", asked: ProxyOptions, output: OutputOptions) -> None:
    from steptime.replay.workload import plan_record

    record = {"verb": "proxy", "source": "computed", "dry_run": True, **plan_record(plan)}
    out = output.out
    if out is not None:
        rundir.create(out)
        with writing(out / "run.json"):
            rundir.write_record(out, record)
    if output.json:
        say(json.dumps(record))
        return
    say("\n".join(_plan_lines(plan, asked)))


def _caller(backend: str) -> "Caller":
    if backend == "mpi":
        from mpi4py import MPI

        from steptime.replay.mpi_calls import MpiCaller

        return MpiCaller(MPI.COMM_WORLD)
    from steptime.replay.torch_calls import TorchCaller

    return TorchCaller()


def _replay(
    plan: "Proxy", place: Place, asked: ProxyOptions, ranks: RankOptions, output: OutputOptions
) -> None:
    from steptime.replay.figures import figures, gathered
    from steptime.replay.replay import replay
    from steptime.replay.standin import stand_in
    from steptime.replay.workload import plan_record
    from steptime.timeline import write_chrome_trace

    caller = _caller(ranks.backend)
    carrier = caller.carrier
    tell = teller(carrier.rank, output, aside=output.json)
    tell("\n".join([*crowding(place), *_plan_lines(plan, asked)]))
    mine = replay(
        plan.program,
        caller,
        steps=asked.steps,
        warmup=asked.warmup,
        compute=stand_in(plan.compute),
        device=plan.device,
        verify=asked.verify,
        seed=asked.seed,
        messages=plan.messages,
    )
    run = gathered(carrier, mine, plan.program)
    if carrier.rank == 0:
        record = {
            "verb": "proxy",
            **whereabouts(place, ranks),
            "library": carrier.library,
            **plan_record(plan),
            **figures(run),
            "steps": asked.steps,
            "warmup": asked.warmup,
            "environment": rundir.environment(),
        }
        for one, wire in zip(record["per_rank"], _wires(run), strict=False):
            one["wire_bytes"] = wire
        with writing(place.out):
            rundir.write_record(place.out, record)
            write_chrome_trace(place.out / "trace.json.gz", run.timeline)
        if not run.wrong:
            if output.json:
                say(json.dumps(record))
            else:
                say("\n".join([*_answer_lines(record, asked), f"run: {place.out}"]))
    carrier.barrier()  # an error here would end rank 0 before it has written
    if run.wrong:
        raise SteptimeError(
            f"{run.wrong:,} of {run.checked:,} elements that were received are wrong: "
            f"{ranks.backend} has moved something else"
        )


def _wires(run: "Replayed") -> list[dict[str, int]]:
    if run.wire is None:
        return []
    return [{"sent": round(sent), "received": round(got)} for sent, got in run.wire.tolist()]


def _plan_lines(plan: "Proxy", asked: ProxyOptions) -> Iterator[str]:
    program = plan.program
    sizes = " × ".join(f"{axis} {size:,}" for axis, size in program.axes.items())
    yield f"{plan.model}: {sizes} = {program.ranks:,} ranks"
    if plan.fraction != 1:
        yield f"NOT THE REAL MESSAGES: each is shrunk to {plan.fraction} of its bytes"
    yield f"{plan.compute}: {plan.times}"
    if asked.verify:
        yield "every value is checked, which takes time within the steps"
    total = sum(
        int((program.class_of == kind).sum()) * demand.memory_bytes
        for kind, demand in enumerate(plan.demands)
    )
    yield (
        f"memory of buffers, computed: {format_bytes(plan.memory_bytes())} a rank at most, "
        f"{format_bytes(total)} in all"
    )
    yield ""
    yield from _class_lines(plan)


def _class_lines(plan: "Proxy") -> Iterator[str]:
    """What each kind of rank calls in a step."""
    yield "in a step (computed)                    calls        elements   group"
    for kind, demand in enumerate(plan.demands[:_SHOWN]):
        own = (plan.program.class_of == kind).nonzero()[0]
        more = f" and {own.size - 1:,} more" if own.size > 1 else ""
        yield f"rank {own[0]:,}{more}: {format_seconds(demand.compute_s)} of computing"
        for (what, axes, members), calls in demand.collectives.items():
            name = f"{what} {'+'.join(axes)}"
            yield f"  {name:<34.34} {calls.calls:>8,} {calls.elements:>15,} {members:>7,}"
        for name, calls in (("sends", demand.sends), ("receives", demand.receives)):
            if calls.calls:
                yield f"  {name:<34} {calls.calls:>8,} {calls.elements:>15,}"
    if len(plan.demands) > _SHOWN:
        yield f"and {len(plan.demands) - _SHOWN} more kinds of ranks: see --json"


def _answer_lines(run: Mapping[str, Any], asked: ProxyOptions) -> Iterator[str]:
    step = run["step_time_s"]
    yield ""
    yield (
        f"step: {format_seconds(step['median'])} median of {asked.steps} on the slowest rank "
        f"(p10 {format_seconds(step['p10'])}, p90 {format_seconds(step['p90'])}), measured"
    )
    yield ""
    yield "measured                     mean of ranks   slowest rank      under way"
    for what, of in run["phases"].items():
        if not of["max_s"]:
            continue
        exposed = what in run["under_way"]
        name = f"waiting for {what or 'nothing'}" if exposed else what
        under_way = format_seconds(run["under_way"][what]) if exposed else ""
        yield (
            f"  {name:<26.26} {format_seconds(of['mean_s']):>13} "
            f"{format_seconds(of['max_s']):>14} {under_way:>14}".rstrip()
        )
    yield ""
    yield from _byte_lines(run)
    if asked.verify:
        yield f"{run['verified']['checked']:,} elements received, and all are right"


def _byte_lines(run: Mapping[str, Any]) -> Iterator[str]:
    wired = "wire_bytes" in run["per_rank"][0]
    counted = "  counted on TCP: sent   received" if wired else ""
    yield f"bytes a step   predicted: sent     received{counted}"
    for one in run["per_rank"][:_SHOWN]:
        sent = sum(of["sent"] for of in one["predicted_bytes"].values())
        received = sum(of["received"] for of in one["predicted_bytes"].values())
        line = f"  rank {one['rank']:<10} {format_bytes(sent):>14} {format_bytes(received):>12}"
        if wired:
            wire = one["wire_bytes"]
            line += f" {format_bytes(wire['sent']):>20} {format_bytes(wire['received']):>10}"
        yield line
    if not wired:
        yield "  nothing went over TCP, where it would be counted"
