"""``train``: Train GPT-2 or Llama, on ranks that are replicas or share the model."""

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import CompileChoice, Flat, OutputOptions, PrecisionChoice, RankOptions
from steptime.cli.printing import folded, say, say_json
from steptime.cli.ranks import Place, on_ranks
from steptime.limits import MOST_RANKS_HERE, check_within
from steptime.train.options import DataOptions, ModelOptions, RunOptions, TrainOptions
from steptime.train.parallel.options import ParallelOptions

if TYPE_CHECKING:
    from steptime.api.training import Asked


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
    from steptime.api.training import asked_of, check_training, is_done

    if output.out and is_done(run, output.out, how.steps):
        _tell_done(output.out, output, how.steps)
        return 0
    replicas, data = _replicas(data)
    asked = asked_of(
        replace(model, name=name),
        data,
        training,
        parallel,
        run,
        folder=output.out,
        strategy=how.strategy,
        precision=how.precision,
        compiled="auto" if how.compiled == "auto" else how.compiled == "on",
        steps=how.steps,
        seed=how.seed,
    )

    def check(size: int) -> None:
        check_training(asked, ranks.backend, size, replicas)

    work = partial(_train, asked, ranks, output)
    stop_s = ranks.timeout_s if run.checkpoint_every else None
    least = parallel.ranks * (replicas or 1)
    return on_ranks("train", ranks, output, least, check, work, stop_s=stop_s)


def _replicas(data: DataOptions) -> tuple[int | None, DataOptions]:
    """The number of replicas where ``--data`` tells that, as in simulate, and no text."""
    if data.data is None or not str(data.data).isdecimal() or data.data.exists():
        return None, data
    replicas = int(str(data.data))
    check_within("--data", replicas, 1, MOST_RANKS_HERE)
    return replicas, replace(data, data=None)


def _tell_done(folder: Path, output: OutputOptions, steps: int) -> None:
    """Tell of a run that is trained to its last step already."""
    from steptime.runs.run_folder import RECORD, read_record

    if output.json:
        say_json(read_record(folder))
    elif not output.quiet:
        say(f"{folder} is trained to step {steps}: {folder / RECORD}")


def _train(asked: "Asked", ranks: RankOptions, output: OutputOptions, place: Place) -> None:
    from steptime.api.training import trained
    from steptime.cli.answer import record_place, write_answer

    shown = place.world.rank == 0 and not output.quiet
    width = output.console().width

    def tell(line: str) -> None:
        if shown:
            print(line, file=sys.stderr) if output.json else say(folded(line, width))

    run = trained(asked, record_place(place, ranks), place.out, tell)
    if run:
        write_answer(run, place.out, output)
