"""``train``: Train GPT-2 under one gradient-sync strategy."""

import sys
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import CompileChoice, Flat, OutputOptions, PrecisionChoice, RankOptions
from steptime.cli.printing import folded, say
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import UsageError
from steptime.train.options import (
    DataOptions,
    JobOptions,
    ModelOptions,
    RunOptions,
    TrainOptions,
)

if TYPE_CHECKING:
    from steptime.train.checkpoint import CheckpointInfo
    from steptime.train.job import Job


def train(
    name: Annotated[str | None, Parameter(name="MODEL")] = None,
    /,
    *,
    model: Flat[ModelOptions] = ModelOptions(),
    data: Flat[DataOptions] = DataOptions(),
    training: Flat[TrainOptions] = TrainOptions(),
    run: Flat[RunOptions] = RunOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
    strategy: str = "overlapped_sharded",
    steps: int = 100,
    precision: PrecisionChoice = "auto",
    compiled: Annotated[CompileChoice, Parameter(name="--compile")] = "auto",
    seed: int = 0,
) -> int:
    """Train GPT-2 under one gradient-sync strategy.

    Parameters
    ----------
    name
        What is trained: a GPT-2, as gpt2-124M or its file; default: gpt2-nano.
    strategy
        How gradients are synchronised; `steptime compare` tells which is fastest here.
    steps
        Steps in all, those before a checkpoint that is resumed included.
    precision
        The dtype of the computation; weights and optimizer state stay in fp32. auto: bf16 where
        the device multiplies it natively.
    compiled
        Compile the model's blocks with torch.compile. auto: from 50 million parameters up, where
        there is a compiler.
    seed
        Makes the initial weights and the order of the data.

    """
    from steptime.strategies import check_backend, live_strategy

    check_backend(live_strategy(strategy), ranks.backend)
    model = replace(model, name=name)
    info = _resumed(model, run)
    options = JobOptions(
        model=model,
        data=data,
        train=training,
        precision="fp32" if precision == "auto" else precision,
        compiled=compiled == "on",
        steps=steps,
        warmup=max(0, min(3, steps - 1)),
        seed=info.seed if info else seed,
    )

    def work(place: Place) -> None:
        job = _prepared(options, info, ranks.backend, precision, compiled)
        _train(job, strategy, run, place, ranks, output)

    return on_ranks("train", ranks, output, 1, partial(_check, options, info), work)


def _check(options: JobOptions, info: "CheckpointInfo | None", size: int) -> None:
    """Raise UsageError where so many ranks cannot share the batch, or there is too little data."""
    from steptime.train.data import check_data

    options.train.rows_per_micro_batch(size)
    row = options.model.row(info.config if info else options.model.config(vocabulary=1))
    check_data(options.data, context=row, batch=options.train.batch, ranks=size)


def _prepared(
    options: JobOptions,
    info: "CheckpointInfo | None",
    backend: str,
    precision: PrecisionChoice,
    compiled: CompileChoice,
) -> "Job":
    """What is trained, with what only a rank can tell of its device: precision and compilation."""
    from steptime.train.hardware import native_precision, worth_compiling
    from steptime.train.job import prepare_job

    job = prepare_job(options, on_gpu=backend == "nccl", stored=info.config if info else None)
    if precision == "auto":
        options = replace(options, precision=native_precision(job.device))
    if compiled == "auto":
        options = replace(options, compiled=worth_compiling(job.config, job.device))
    return replace(job, options=options)


def _resumed(model: ModelOptions, run: RunOptions) -> "CheckpointInfo | None":
    """The checkpoint that is resumed, if one is; UsageError where options contradict it."""
    from steptime.train.checkpoint import read_checkpoint_info

    if not run.resume:
        return None
    info = read_checkpoint_info(run.resume)
    _check_resumed(model, info)
    return info


def _check_resumed(model: ModelOptions, info: "CheckpointInfo") -> None:
    """Raise UsageError when options contradict the checkpoint that is to be resumed."""
    if model.init:
        raise UsageError("--init and --resume both say where the weights come from: leave one out")
    for field in ("layers", "heads", "embd"):
        asked, stored = getattr(model, field), getattr(info.config, field)
        if asked not in (None, stored):
            raise UsageError(f"--{field} is {asked}, and {stored} in the checkpoint: leave it out")


def _train(
    job: "Job", name: str, run: RunOptions, place: Place, ranks: RankOptions, output: OutputOptions
) -> None:
    from steptime.api.results import Run
    from steptime.cli.answer import leave, record_place
    from steptime.strategies import strategy_named
    from steptime.study.compare import summarise
    from steptime.study.programs import trained_programs
    from steptime.study.record import training_record
    from steptime.train.job import gather
    from steptime.train.run import run_training
    from steptime.world.alignment import Alignment, read_clocks
    from steptime.world.clock import TorchPeers

    shown = place.world.rank == 0 and not output.quiet
    width = output.console().width

    def tell(line: str) -> None:
        if shown:
            print(line, file=sys.stderr) if output.json else say(folded(line, width))

    tell(
        f"{job.title}, {name}, ranks: {place.world.size}, threads a rank: {place.threads}, "
        f"{job.options.precision}"
        f"{', compiled' if job.options.compiled else ''}"
    )
    before = read_clocks(TorchPeers())
    record, validations = run_training(job, strategy_named(name), run, place.out, tell)
    alignment = Alignment(before, read_clocks(TorchPeers()))
    records = gather(record)
    if records:
        summary = summarise(job, {name: records}, alignment)
        answer = replace(
            training_record("train", str(place.out), summary, job, record_place(place, ranks)),
            val_loss=validations[-1].loss,
            validation=[asdict(validation) for validation in validations],
        )
        programs = trained_programs(summary, job.options, job.config)
        leave(Run(answer, summary.timeline, tuple(programs)), place.out, output)
