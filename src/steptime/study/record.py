"""The record of a training: the answer, what was asked, and where it was measured."""

from dataclasses import asdict, replace

from steptime.runs.environment import here
from steptime.runs.figures import with_speeds
from steptime.runs.record import Place, RunRecord, Timing, Work
from steptime.study.comparison import Comparison
from steptime.study.resimulate import training_spec
from steptime.train.config import name_of
from steptime.train.job import Job


def training_record(
    verb: str, run: str, comparison: Comparison, job: Job, place: Place
) -> RunRecord:
    """The record of ``comparison``, which ``verb`` made in the folder ``run`` on some ranks."""
    options, config = job.options, job.config
    specs = {
        name: asdict(training_spec(name, options, config, ranks=len(figures.ranks)))
        for name, figures in comparison.strategies.items()
    }
    strategies = {
        name: replace(figures, spec=specs[name]) for name, figures in comparison.strategies.items()
    }
    return RunRecord(
        verb=verb,
        run=run,
        work=Work(
            model=name_of(config),
            spec=specs[comparison.winner],
            model_config=asdict(config)
            | {"padded_vocabulary": config.padded_vocabulary, "parameters": config.parameters},
            precision=options.precision,
            reduce_dtype=options.train.reduce_dtype,
            compiled=options.compiled,
            batch=options.train.batch,
            accumulate=options.train.accumulate,
            seed=options.seed,
            data=job.tokens.description,
        ),
        place=place,
        timing=Timing(steps=options.steps, warmup=options.warmup),
        strategies=with_speeds(strategies),
        winner=comparison.winner,
        clock=comparison.timeline.clocks,
        environment=here(own=place.world_size * (place.threads or 1)),
    )
