"""``steptime.compare``: a real GPT-2 trained here under each gradient-sync strategy."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from steptime.api.devices import check_precision
from steptime.api.results import Run
from steptime.api.running import answer_of_ranks
from steptime.runs.record import Place
from steptime.strategies import Strategy, check_backend, live_strategies, live_strategy
from steptime.train.asked import check_room, shared_step
from steptime.train.data import check_data
from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
from steptime.turns import TurnOptions
from steptime.workloads.precision import PrecisionName
from steptime.workloads.sync import strategies_of_many_axes

if TYPE_CHECKING:
    from steptime.train.job import Job


def compare(
    model: str | Path = "gpt2-nano",
    *,
    strategies: str | Sequence[str] = "all",
    ranks: int = 4,
    backend: Literal["gloo", "nccl", "steptime"] = "gloo",
    threads: int = 1,
    steps: int = 20,
    warmup: int = 3,
    batch: int = 32,
    precision: PrecisionName = "fp32",
    data: str | Path | None = None,
    turns: int | None = None,
    see: str | None = None,
    within: str | None = None,
    seed: int = 0,
    timeout: float | str = "1h",
) -> Run:
    """Train a GPT-2 on live ranks of this machine under each strategy; which is fastest, and why.

    ``model``: a GPT-2 by its name or file. ``strategies``: names, or all that can run here.
    ``batch``: rows of the global batch; ``steps`` of each are timed after ``warmup``, in so many
    ``turns``, or with ``see="5%"`` as many as would nearly always tell such a difference, of which
    with ``within="10min"`` none begins later. ``data``: text to train on, by default the Python
    standard library's own sources.

    Raises what ``st.run`` raises, and UsageError where this cannot be trained.

    >>> trained = st.compare(ranks=2, strategies=["replicated", "sharded"], steps=2, batch=4)
    >>> sorted(trained.strategies)
    ['replicated', 'sharded']
    >>> trained.figures.source
    'measured'
    """
    options = JobOptions(
        model=ModelOptions(name=str(model)),
        data=DataOptions(data=None if data is None else Path(data)),
        train=TrainOptions(batch=batch),
        precision=precision,
        compiled=False,
        steps=warmup + steps,
        warmup=warmup,
        seed=seed,
    )
    how = TurnOptions(turns=turns, see=see, within=within)
    chosen = chosen_strategies(strategies)
    check_comparison(options, how, chosen, backend, ranks)
    names = [one.name for one in chosen or possible(backend, one_host=True)]
    place = Place(world_size=ranks, threads=threads, backend=backend, launcher="steptime")
    work = partial(_compared, options, how, names, place)
    return answer_of_ranks(work, ranks=ranks, backend=backend, threads=threads, timeout=timeout)


def chosen_strategies(names: str | Sequence[str]) -> list[Strategy]:
    """The strategies that are named, with commas or one by one; none for ``all``.

    Raises UsageError where there is none of a name.
    """
    if names == "all":
        return []
    words = names.split(",") if isinstance(names, str) else names
    return [live_strategy(name) for name in dict.fromkeys(words)]


def possible(backend: str, *, one_host: bool = True) -> list[Strategy]:
    """All strategies that can run on ranks of one host, or of several, by a backend."""
    shares_memory = one_host and backend != "nccl"
    return [s for s in live_strategies().values() if shares_memory or not s.in_shared_memory]


def check_comparison(
    options: JobOptions, how: TurnOptions, chosen: Sequence[Strategy], backend: str, ranks: int
) -> None:
    """Raise UsageError where strategies, turns, batch or data do not suit so many ranks."""
    how.blocks(options.steps - options.warmup)
    for strategy in chosen:
        check_backend(strategy, backend)
    check_precision(options.precision, backend)
    model = options.model.config(vocabulary=1)
    check_room(model, options, backend)
    if not options.parallel.shares:
        options.train.rows_per_micro_batch(ranks)
    names = [strategy.name for strategy in chosen or strategies_of(options, possible(backend))]
    for name in names:
        shared_step(name, options, model, ranks=ranks)
    replicas = max(1, ranks // options.parallel.ranks) * options.parallel.expert
    context = options.model.row(model)
    check_data(options.data, context=context, batch=options.train.batch, ranks=replicas)


def strategies_of(options: JobOptions, able: Sequence[Strategy]) -> list[Strategy]:
    """Those of the strategies that ranks can train under as they are asked to share the model."""
    if not options.parallel.shares:
        return list(able)
    symmetric = strategies_of_many_axes()
    return [strategy for strategy in able if strategy.name in symmetric]


def compared(
    job: "Job",
    chosen: Sequence[Strategy],
    how: TurnOptions,
    place: Place,
    on_step: Callable[[Strategy], None],
) -> Run | None:
    """Train as one of the ranks under each strategy; the answer on rank 0, None on the others."""
    from steptime.study import compare as study
    from steptime.study.programs import trained_programs
    from steptime.study.record import training_record

    comparison = study.compare(job, chosen, how, on_step)
    if comparison is None:
        return None
    record = training_record("compare", "", comparison, job, place)
    programs = trained_programs(comparison, job.options, job.config)
    return Run(record, comparison.timeline, tuple(programs))


def _compared(
    options: JobOptions, how: TurnOptions, names: Sequence[str], place: Place
) -> Run | None:
    """What a rank that ``compare`` started does."""
    from steptime.train.job import prepare_job

    job = prepare_job(options, on_gpu=place.backend == "nccl")
    return compared(job, chosen_strategies(names), how, place, lambda _: None)
