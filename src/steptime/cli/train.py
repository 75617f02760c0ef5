"""``train``: Train GPT-2 or Llama, on ranks that are replicas or share the model."""

import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import CompileChoice, Flat, OutputOptions, PrecisionChoice, RankOptions
from steptime.cli.printing import folded, say, say_json
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import UsageError
from steptime.limits import MOST_RANKS_HERE, check_within
from steptime.train.options import (
    DataOptions,
    JobOptions,
    ModelOptions,
    RunOptions,
    TrainOptions,
)
from steptime.train.parallel.options import ParallelOptions

if TYPE_CHECKING:
    from steptime.train.checkpoint import CheckpointInfo
    from steptime.train.job import Job


@dataclass(frozen=True, kw_only=True)
class LongOptions:
    """How long, in which dtype, and under which strategy."""

    strategy: str | None = None
    """How gradients are synchronised, or FILE.py with a way of your own, which is run; `steptime
    compare` tells which is fastest here; default: overlapped_sharded."""

    steps: int = 100
    """Steps in all, those before a checkpoint that is resumed included."""

    precision: PrecisionChoice = "auto"
    """The dtype of the computation; weights and optimizer state stay in fp32, but with bf16-params.
    fp8-emulated is bf16 with the inputs of the blocks' products rounded to fp8. auto: bf16 where
    the device multiplies it natively."""

    compiled: Annotated[CompileChoice, Parameter(name="--compile")] = "auto"
    """Compile the model's blocks with torch.compile. auto: from 50 million parameters up, where
    there is a compiler."""

    seed: int = 0
    """Makes the initial weights and the order of the data."""


def train(
    name: Annotated[str | None, Parameter(name="MODEL")] = None,
    /,
    *,
    model: Flat[ModelOptions] = ModelOptions(),
    data: Flat[DataOptions] = DataOptions(),
    training: Flat[TrainOptions] = TrainOptions(),
    parallel: Flat[ParallelOptions] = ParallelOptions(),
    run: Flat[RunOptions] = RunOptions(),
    how: Flat[LongOptions] = LongOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """Train GPT-2 or Llama, on ranks that are replicas or share the model.

    The axes are those of simulate, and so is the step: --tensor 2 --pipeline 2 of 8 ranks leaves
    two replicas. --data takes their number too, or the text to train on.

    Parameters
    ----------
    name
        What is trained: a GPT-2 or a Llama, as gpt2-124M or llama-nano, or its file; default:
        gpt2-nano.

    """
    model = replace(model, name=name)
    if _is_done(run, output, how.steps):
        return 0
    replicas, data = _replicas(data)
    info = _resumed(model, run, output, how.steps)
    options = JobOptions(
        model=model,
        data=data,
        train=training,
        parallel=parallel,
        precision="fp32" if how.precision == "auto" else how.precision,
        compiled=how.compiled == "on",
        steps=how.steps,
        warmup=max(0, min(3, how.steps - 1)),
        seed=info.seed if info else how.seed,
    )

    def work(place: Place) -> None:
        job = _prepared(options, info, ranks.backend, how.precision, how.compiled)
        _train(job, how.strategy, run, place, ranks, output)

    stop_s = ranks.timeout_s if run.checkpoint_every else None
    check = partial(_check, options, info, how.strategy, replicas, ranks.backend)
    least = parallel.ranks * (replicas or 1)
    return on_ranks("train", ranks, output, least, check, work, stop_s=stop_s)


def _replicas(data: DataOptions) -> tuple[int | None, DataOptions]:
    """The number of replicas where ``--data`` tells that, as in simulate, and no text."""
    if data.data is None or not str(data.data).isdecimal() or data.data.exists():
        return None, data
    replicas = int(str(data.data))
    check_within("--data", replicas, 1, MOST_RANKS_HERE)
    return replicas, replace(data, data=None)


def _check(
    options: JobOptions,
    info: "CheckpointInfo | None",
    strategy: str | None,
    replicas: int | None,
    backend: str,
    size: int,
) -> None:
    """Raise UsageError where so many ranks cannot share the batch, or there is too little data."""
    from steptime.api.devices import check_precision
    from steptime.strategies import check_backend, trained_strategy
    from steptime.train.asked import check_room, shared_step, training_spec
    from steptime.train.data import check_data
    from steptime.workloads.resolve import mesh_of

    model = info.config if info else options.model.config(vocabulary=1)
    if replicas is not None and replicas * options.parallel.ranks != size:
        raise UsageError(
            f"{replicas} replicas of {options.parallel.ranks} ranks each are not {size} ranks: "
            f"leave out --data, or give --ranks {replicas * options.parallel.ranks}"
        )
    if not options.parallel.shares:
        options.train.rows_per_micro_batch(size)
    spec = training_spec(strategy, options, model, ranks=size)
    check_backend(trained_strategy(str(spec.strategy)), backend)
    check_room(model, options, backend)
    check_precision(options.precision, backend)
    shared_step(strategy, options, model, ranks=size)
    check_data(
        options.data,
        context=options.model.row(model),
        batch=options.train.batch,
        ranks=mesh_of(spec).replicas,
        model_vocabulary=model.vocabulary if info or options.model.init else None,
    )


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


def _is_done(run: RunOptions, output: OutputOptions, steps: int) -> bool:
    """Whether the run that ``--resume auto`` goes on with has its answer already, which is told.

    So a scheduler may start the same command again and again.
    """
    from steptime.runs.run_folder import RECORD, read_record
    from steptime.train.keeping.folders import checkpoints

    if run.resume != "auto" or output.out is None or not (output.out / RECORD).exists():
        return False
    done = next((step for step, _ in checkpoints(output.out)), None)
    record = read_record(output.out)
    if done != steps or record.get("steps") != steps:
        return False
    if output.json:
        say_json(record)
    elif not output.quiet:
        say(f"{output.out} is trained to step {steps}: {output.out / RECORD}")
    return True


def _resumed(
    model: ModelOptions, run: RunOptions, output: OutputOptions, steps: int
) -> "CheckpointInfo | None":
    """What is to be resumed, if anything is; UsageError where options or folders contradict it."""
    from steptime.train.keeping.choice import candidates, likely
    from steptime.train.keeping.folders import check_free_for, check_room

    if output.out is None:
        if run.resume == "auto":
            raise UsageError("--resume auto goes on in the run's folder: name it with --out")
        out = Path()
    else:
        out = output.out
    found = likely(candidates(run.resume, out, steps))
    if found:
        _check_resumed(model, run, *found)
    if run.checkpoint_every:
        if output.out and run.resume != "auto":
            check_free_for(output.out, found[1].step if found else 0)
        config = found[1].config if found else model.config(vocabulary=1)
        check_room(out, config.parameters)
    return found[1] if found else None


def _check_resumed(
    model: ModelOptions, run: RunOptions, folder: Path, info: "CheckpointInfo"
) -> None:
    """Raise UsageError when options contradict the checkpoint that is to be resumed."""
    if run.resume == "auto":
        _check_same_model(model, folder, info)
        return
    if model.init:
        raise UsageError("--init and --resume both say where the weights come from: leave one out")
    for field in ("layers", "heads", "hidden"):
        asked, stored = getattr(model, field), getattr(info.config, field)
        if asked not in (None, stored):
            raise UsageError(f"--{field} is {asked}, and {stored} in the checkpoint: leave it out")


def _check_same_model(model: ModelOptions, folder: Path, info: "CheckpointInfo") -> None:
    """Raise UsageError where the run in ``--out`` trains another model than is asked for.

    The command of a run that is resumed is that of its begin, so it names the model whole; only
    its vocabulary may come from the data, which are not read yet.
    """
    from steptime.train.llmc import check_dimensions

    asked = replace(model.config(vocabulary=1), vocabulary=info.config.vocabulary)
    check_dimensions(folder, info.config, asked)


def _train(
    job: "Job",
    strategy: str | None,
    run: RunOptions,
    place: Place,
    ranks: RankOptions,
    output: OutputOptions,
) -> None:
    from steptime.api.results import Run
    from steptime.cli.answer import leave, record_place
    from steptime.strategies import strategy_named
    from steptime.study.compare import summarise
    from steptime.study.programs import trained_programs
    from steptime.study.record import training_record
    from steptime.train.asked import training_spec
    from steptime.train.job import gather
    from steptime.train.run import run_training
    from steptime.workloads.resolve import mesh_of
    from steptime.world.alignment import Alignment, read_clocks
    from steptime.world.clock import TorchPeers

    shown = place.world.rank == 0 and not output.quiet
    width = output.console().width

    def tell(line: str) -> None:
        if shown:
            print(line, file=sys.stderr) if output.json else say(folded(line, width))

    spec = training_spec(strategy, job.options, job.config, ranks=place.world.size)
    name = str(spec.strategy)
    shared = f" ({mesh_of(spec)})" if spec.shares else ""
    tell(
        f"{job.title}, {name}, ranks: {place.world.size}{shared}, threads a rank: {place.threads}, "
        f"{job.options.precision}"
        f"{', compiled' if job.options.compiled else ''}"
    )
    before = read_clocks(TorchPeers())
    trained = run_training(job, strategy_named(name), run, place.out, tell)
    alignment = Alignment(before, read_clocks(TorchPeers()))
    records = gather(trained.record)
    tell(trained.goodput.sentence)
    if records:
        summary = summarise(job, {name: records}, alignment)
        answer = replace(
            training_record("train", str(place.out), summary, job, record_place(place, ranks)),
            val_loss=trained.validations[-1].loss,
            validation=[asdict(validation) for validation in trained.validations],
            goodput=asdict(trained.goodput),
        )
        programs = trained_programs(summary, job.options, job.config)
        leave(Run(answer, summary.timeline, tuple(programs)), place.out, output)
