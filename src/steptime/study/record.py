"""The record of a training: the answer, what was asked, and where it was measured."""

from dataclasses import asdict, replace

import torch

from steptime.cluster import Device
from steptime.cluster.known_gpus import gpu_named
from steptime.runs.environment import here
from steptime.runs.figures import with_speeds
from steptime.runs.record import Place, RunRecord, Timing, Work
from steptime.runs.utilisation import step_work, utilisation
from steptime.study.comparison import Comparison
from steptime.train.asked import training_spec
from steptime.train.job import Job


def training_record(
    verb: str, run: str, comparison: Comparison, job: Job, place: Place
) -> RunRecord:
    """The record of ``comparison``, which ``verb`` made in the folder ``run`` on some ranks."""
    options, config = job.options, job.config
    asked = {
        name: training_spec(name, options, config, ranks=len(figures.ranks))
        for name, figures in comparison.strategies.items()
    }
    specs = {name: asdict(spec) for name, spec in asked.items()}
    device = _gpu(job)
    strategies = {
        name: replace(
            figures,
            spec=specs[name],
            utilisation=utilisation(
                step_work(config, asked[name], device), figures.step_time_s.median
            ),
        )
        for name, figures in comparison.strategies.items()
    }
    race = comparison.race
    timed = race.turns.steps if race else options.steps - options.warmup
    told = {name: getattr(race, name) for name in ("level_with", "ratios", "turns")} if race else {}
    return RunRecord(
        verb=verb,
        run=run,
        work=Work(
            model=config.name,
            spec=specs[comparison.fastest],
            model_config=config.dimensions
            | {
                "padded_vocabulary": config.padded().vocabulary,
                "parameters": config.padded().parameters,
            },
            precision=options.precision,
            reduce_dtype=options.train.reduce_dtype,
            rounding=options.train.rounding if options.precision == "bf16-params" else None,
            compiled=options.compiled,
            batch=options.train.batch,
            accumulate=options.train.accumulate,
            seed=options.seed,
            data=job.tokens.description,
        ),
        place=place,
        timing=Timing(steps=options.warmup + timed, warmup=options.warmup),
        strategies=with_speeds(strategies),
        winner=comparison.winner,
        **told,
        host_links=comparison.host_links,
        clock=comparison.timeline.clocks,
        environment=here(own=place.world_size * (place.threads or 1)),
    )


def _gpu(job: Job) -> Device | None:
    """The kind of GPU that this rank trains on; None on a CPU, whose peak nobody has told."""
    if job.device.type != "cuda":
        return None
    return gpu_named(torch.cuda.get_device_name(job.device))
