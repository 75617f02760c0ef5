"""What run.json holds of a training: the answer, what was asked, and where it was measured."""

from dataclasses import asdict
from typing import Any

from steptime.runs import run_folder
from steptime.study.comparison import Comparison
from steptime.study.resimulate import training_step
from steptime.train.config import name_of
from steptime.train.job import Job


def training_record(verb: str, comparison: Comparison, job: Job) -> dict[str, Any]:
    """The JSON of ``comparison``; what only the launcher knows (ranks, threads) is added to it."""
    options, config = job.options, job.config
    entries = comparison.entries()
    for name, figures in comparison.strategies.items():
        step = training_step(name, options, config, ranks=len(figures.ranks))
        entries[name]["spec"] = asdict(step.spec)
    return {
        "verb": verb,
        "model": name_of(config),
        "model_config": asdict(config)
        | {"padded_vocabulary": config.padded_vocabulary, "parameters": config.parameters},
        "precision": options.precision,
        "reduce_dtype": options.train.reduce_dtype,
        "compiled": options.compiled,
        "batch": options.train.batch,
        "accumulate": options.train.accumulate,
        "steps": options.steps,
        "warmup": options.warmup,
        "seed": options.seed,
        "data": job.tokens.description,
        "spec": entries[comparison.winner]["spec"],
        "winner": comparison.winner,
        "strategies": entries,
        "clock": [asdict(clock) for clock in comparison.timeline.clocks],
        "environment": run_folder.environment(),
    }
