"""``steptime.train``: a GPT-2 or a Llama trained on live ranks, replicas or ranks that share it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

from steptime.api.devices import check_precision
from steptime.api.results import Run, load
from steptime.api.running import answer_of_ranks
from steptime.errors import UsageError
from steptime.runs import run_folder
from steptime.runs.record import Place
from steptime.strategies import check_backend, strategy_named, trained_strategy
from steptime.train.asked import check_room, shared_step, training_spec
from steptime.train.data import check_data
from steptime.train.keeping import folders
from steptime.train.keeping.choice import candidates, likely
from steptime.train.llmc import check_dimensions
from steptime.train.options import (
    DataOptions,
    JobOptions,
    ModelOptions,
    RunOptions,
    TrainingOptions,
    TrainOptions,
)
from steptime.train.parallel.options import ParallelOptions
from steptime.units import Size
from steptime.workloads.precision import PrecisionName
from steptime.workloads.resolve import mesh_of

if TYPE_CHECKING:
    from steptime.train.checkpoint import CheckpointInfo
    from steptime.train.job import Job

Auto: TypeAlias = Literal["auto"]
_GROUPS = (ModelOptions, DataOptions, TrainOptions, ParallelOptions, RunOptions)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A training as it is asked for: ``options`` and, if it goes on from one, its checkpoint.

    ``precision`` and ``compiled`` are chosen by each rank's device where they are ``auto``;
    ``options`` have fp32 and no compiling then.
    """

    options: JobOptions
    strategy: str | None
    run: RunOptions
    resumed: "CheckpointInfo | None"
    precision: PrecisionName | Auto
    compiled: bool | Auto


def train(
    model: str | Path = "gpt2-nano",
    *,
    strategy: str | None = None,
    ranks: int = 4,
    backend: Literal["gloo", "nccl", "steptime"] = "gloo",
    threads: int = 1,
    steps: int = 100,
    precision: PrecisionName | Auto = "auto",
    compiled: bool | Auto = "auto",
    seed: int = 0,
    out: str | Path | None = None,
    log: bool = True,
    timeout: float | str = "24h",
    **training: Unpack[TrainingOptions],
) -> Run:
    """Train a GPT-2 or a Llama on live ranks of this machine; the result has its losses and steps.

    ``model``: its name or file. ``strategy``: how gradients are synchronised, by default
    overlapped_sharded. ``steps`` in all, those before a checkpoint that is resumed included.
    ``precision`` auto: bf16 where the device multiplies it natively; ``compiled`` auto: from 50
    million parameters up, where there is a compiler. ``training``: the text, axes along which ranks
    share the model, batch, learning rate, checkpoints… by the options of the command line, as
    ``tensor=2, batch=16, data="text.txt", checkpoint_every=50``. ``out``: the run's folder, which
    checkpoints need. ``log``: rank 0 prints how it goes.

    Raises what ``st.run`` raises; UsageError where this cannot be; SteptimeError for a bad loss.

    >>> run = st.train(ranks=2, tensor=2, steps=3, batch=4, log=False)
    >>> run.record.place.world_size, len(run.record.validation)
    (2, 3)
    >>> 0 < run.record.val_loss < 7
    True
    """
    folder = Path() if out is None else Path(out)
    options: RunOptions = _group(RunOptions, training)
    if out is not None and is_done(options, folder, steps):
        return load(folder)
    if options.checkpoint_every and out is None:
        raise UsageError("checkpoints lie in the run's folder: name it with out")
    asked = asked_of(
        replace(_group(ModelOptions, training), name=str(model)),
        _group(DataOptions, training),
        _group(TrainOptions, training),
        _group(ParallelOptions, training),
        options,
        folder=None if out is None else Path(out),
        strategy=strategy,
        precision=precision,
        compiled=compiled,
        steps=steps,
        seed=seed,
    )
    check_training(asked, backend, ranks)
    if out is not None:
        run_folder.create(folder)
    place = Place(world_size=ranks, threads=threads, backend=backend, launcher="steptime")
    work = partial(_trained, asked, place, folder.absolute(), log=log)
    found = answer_of_ranks(work, ranks=ranks, backend=backend, threads=threads, timeout=timeout)
    return found if out is None else found.written_to(folder)


def _group(of: type[Any], given: Mapping[str, Any]) -> Any:
    """The options of a group among those given; UsageError for a name that is in no group."""
    known = {field.name for group in _GROUPS for field in fields(group)} - {"name", "model"}
    if unknown := sorted(given.keys() - known):
        raise UsageError(f"there is no option {unknown[0]!r} of a training")
    names = [field.name for field in fields(of)]
    own = {name: value for name, value in given.items() if name in names}
    for name in ("data", "init", "resume"):
        if isinstance(own.get(name), str) and own[name] != "auto":
            own[name] = Path(own[name])
    if "bucket" in own:
        own["bucket"] = Size(own["bucket"])
    return of(**own)


def asked_of(
    model: ModelOptions,
    data: DataOptions,
    training: TrainOptions,
    parallel: ParallelOptions,
    run: RunOptions,
    *,
    folder: Path | None,
    strategy: str | None,
    precision: PrecisionName | Auto,
    compiled: bool | Auto,
    steps: int,
    seed: int,
) -> Asked:
    """What is asked for, with the checkpoint in a ``folder`` or elsewhere that it goes on from.

    Raises UsageError where options or folders contradict that.
    """
    info = resumed(model, run, folder, steps)
    options = JobOptions(
        model=model,
        data=data,
        train=training,
        parallel=parallel,
        precision="fp32" if precision == "auto" else precision,
        compiled=compiled is True,
        steps=steps,
        warmup=max(0, min(3, steps - 1)),
        seed=info.seed if info else seed,
    )
    return Asked(
        options=options,
        strategy=strategy,
        run=run,
        resumed=info,
        precision=precision,
        compiled=compiled,
    )


def check_training(asked: Asked, backend: str, ranks: int, replicas: int | None = None) -> None:
    """Raise UsageError where so many ranks cannot share the batch, or there is too little data.

    ``replicas``: how many there are to be, where that was said.
    """
    options, info = asked.options, asked.resumed
    model = info.config if info else options.model.config(vocabulary=1)
    if replicas is not None and replicas * options.parallel.ranks != ranks:
        raise UsageError(
            f"{replicas} replicas of {options.parallel.ranks} ranks each are not {ranks} ranks: "
            f"leave out --data, or give --ranks {replicas * options.parallel.ranks}"
        )
    if not options.parallel.shares:
        options.train.rows_per_micro_batch(ranks)
    spec = training_spec(asked.strategy, options, model, ranks=ranks)
    check_backend(trained_strategy(str(spec.strategy)), backend)
    check_room(model, options, backend)
    check_precision(options.precision, backend)
    shared_step(asked.strategy, options, model, ranks=ranks)
    check_data(
        options.data,
        context=options.model.row(model),
        batch=options.train.batch,
        ranks=mesh_of(spec).replicas,
        model_vocabulary=model.vocabulary if info or options.model.init else None,
    )


def is_done(run: RunOptions, folder: Path, steps: int) -> bool:
    """Whether the run that ``resume="auto"`` goes on with has its answer in its folder already.

    So a scheduler may start the same command again and again.
    """
    if run.resume != "auto" or not (folder / run_folder.RECORD).exists():
        return False
    done = next((step for step, _ in folders.checkpoints(folder)), None)
    return done == steps == run_folder.read_record(folder).get("steps")


def resumed(
    model: ModelOptions, run: RunOptions, folder: Path | None, steps: int
) -> "CheckpointInfo | None":
    """What is to be resumed, if anything is; UsageError where options or folders contradict it."""
    if folder is None and run.resume == "auto":
        raise UsageError("--resume auto goes on in the run's folder: name it with --out")
    out = folder or Path()
    found = likely(candidates(run.resume, out, steps))
    if found:
        _check_resumed(model, run, *found)
    if run.checkpoint_every:
        if folder and run.resume != "auto":
            folders.check_free_for(folder, found[1].step if found else 0)
        config = found[1].config if found else model.config(vocabulary=1)
        folders.check_room(out, config.parameters)
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
    """Raise UsageError where the run in its folder trains another model than is asked for.

    The command of a run that is resumed is that of its begin, so it names the model whole; only
    its vocabulary may come from the data, which are not read yet.
    """
    asked = replace(model.config(vocabulary=1), vocabulary=info.config.vocabulary)
    check_dimensions(folder, info.config, asked)


def trained(asked: Asked, place: Place, out: Path, tell: Callable[[str], None]) -> Run | None:
    """Train as one of the ranks, with checkpoints in ``out``; the answer on rank 0.

    ``tell`` is called with lines of a log, on every rank. Raises as ``run_training``.
    """
    from steptime.study.compare import summarise
    from steptime.study.programs import trained_programs
    from steptime.study.record import training_record
    from steptime.train.job import gather
    from steptime.train.run import run_training
    from steptime.world.alignment import Alignment, read_clocks
    from steptime.world.clock import TorchPeers

    job = _prepared(asked, on_gpu=place.backend == "nccl")
    spec = training_spec(asked.strategy, job.options, job.config, ranks=place.world_size)
    name = str(spec.strategy)
    shared = f" ({mesh_of(spec)})" if spec.shares else ""
    tell(
        f"{job.title}, {name}, ranks: {place.world_size}{shared}, threads a rank: {place.threads}, "
        f"{job.options.precision}{', compiled' if job.options.compiled else ''}"
    )
    before = read_clocks(TorchPeers())
    done = run_training(job, strategy_named(name), asked.run, out, tell)
    alignment = Alignment(before, read_clocks(TorchPeers()))
    records = gather(done.record)
    tell(done.goodput.sentence)
    if not records:
        return None
    summary = summarise(job, {name: records}, alignment)
    record = replace(
        training_record("train", "", summary, job, place),
        val_loss=done.validations[-1].loss,
        validation=[asdict(validation) for validation in done.validations],
        goodput=asdict(done.goodput),
    )
    programs = trained_programs(summary, job.options, job.config)
    return Run(record, summary.timeline, tuple(programs))


def _prepared(asked: Asked, *, on_gpu: bool) -> "Job":
    """What is trained, with what only a rank can tell of its device: precision and compilation."""
    from steptime.train.hardware import native_precision, worth_compiling
    from steptime.train.job import prepare_job

    stored = asked.resumed.config if asked.resumed else None
    job = prepare_job(asked.options, on_gpu=on_gpu, stored=stored)
    options = asked.options
    if asked.precision == "auto":
        options = replace(options, precision=native_precision(job.device))
    if asked.compiled == "auto":
        options = replace(options, compiled=worth_compiling(job.config, job.device))
    return replace(job, options=options)


def _trained(asked: Asked, place: Place, out: Path, *, log: bool) -> Run | None:
    """What a rank that ``train`` started does."""
    import torch.distributed as dist

    shown = log and dist.get_rank() == 0
    return trained(asked, place, out, print if shown else lambda _: None)
