"""Options of a training run: frozen, checked, and free of torch."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from steptime.errors import UsageError
from steptime.train.config import NANO, GPT2Config, gpt2_named, gpt2_of_size
from steptime.units import Size
from steptime.workloads.precision import DtypeName

TokenizerName: TypeAlias = Literal["byte", "bpe", "gpt2"]
ScheduleName: TypeAlias = Literal["cosine", "linear", "constant", "wsd"]


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Where the training text comes from and how it becomes tokens."""

    data: Path | None = None
    """A text file, a folder of text, or llm.c/nanoGPT .bin token shards (a file or a folder of
    them). Default: the Python standard library's own sources."""

    tokenizer: TokenizerName = "byte"
    """byte: one token a byte; bpe: byte-pair encoding trained on the data; gpt2: GPT-2's own."""

    vocabulary: int = 4096
    """Number of tokens of the trained bpe."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model: a GPT-2 by its name, or that with other dimensions, or those of weights."""

    name: Annotated[str | None, Parameter(parse=False)] = None
    """As gpt2-124M, or a file; default: gpt2-nano."""

    model: str | None = None
    """Its size alone, as nano, micro, 124M, 355M, 774M or 1558M."""

    layers: int | None = None
    """Number of blocks, if not the model's."""

    heads: int | None = None
    """Attention heads a block, if not the model's."""

    embd: int | None = None
    """Channels, if not the model's."""

    context: int | None = None
    """Tokens a row, if not the model's."""

    init: Path | None = None
    """Weights and dimensions from an llm.c checkpoint, such as gpt2_124M.bin."""

    def __post_init__(self) -> None:
        if self.model and self.name not in (None, "gpt2", f"gpt2-{self.model}"):
            raise UsageError(f"{self.name} and --model {self.model} are two models: leave one out")
        if self.init and (self.layers or self.heads or self.embd):
            raise UsageError(
                f"{self.init} has its own --layers, --heads and --embd: leave them out"
            )
        if any(getattr(self, one.name) != one.default for one in fields(self)):
            self.row(self.config(vocabulary=1))

    def config(self, vocabulary: int) -> GPT2Config:
        """The dimensions asked for, with so many tokens unless a file says how many.

        Raises UsageError when they do not fit together.
        """
        if self.init:
            from steptime.train.llmc import read_header

            return read_header(self.init)[0]
        model = gpt2_of_size(self.model) if self.model else gpt2_named(self.name or NANO)
        return GPT2Config(
            layers=model.layers if self.layers is None else self.layers,
            heads=model.heads if self.heads is None else self.heads,
            embd=model.hidden if self.embd is None else self.embd,
            context=model.context if self.context is None else self.context,
            vocabulary=vocabulary,
        )

    def row(self, config: GPT2Config) -> int:
        """Tokens a row for a model of these dimensions; raises UsageError when it has fewer."""
        if self.context is not None and not 1 <= self.context <= config.context:
            raise UsageError(
                f"--context is {self.context}: the model has positions for 1 to {config.context}"
            )
        return self.context or config.context


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How the model is trained; the same for one rank and for many."""

    batch: int = 32
    """Rows of the global batch, all ranks and micro-batches together."""

    accumulate: int = 1
    """Micro-batches whose gradients add up to one step."""

    lr: float | None = None
    """Peak learning rate; default: what suits the model."""

    schedule: ScheduleName = "cosine"
    """How the learning rate goes after its warm-up: cosine, linear, constant or wsd."""

    lr_warmup: int | None = None
    """Steps over which the learning rate climbs; default: a tenth of all steps, at least 20."""

    weight_decay: float = 0.1
    """AdamW's decay of matrices and embeddings."""

    clip: float = 1.0
    """Largest norm of the whole gradient; 0 leaves it as it is."""

    reduce_dtype: DtypeName = "fp32"
    """The dtype in which gradients are communicated."""

    bucket: Size = Size("25MiB")  # noqa: RUF009 - a Size is immutable
    """Bucket size of the overlapped strategies, at most an eighth of the gradients."""

    def __post_init__(self) -> None:
        for field in ("batch", "accumulate", "bucket"):
            if getattr(self, field) < 1:
                raise UsageError(f"--{field} is {getattr(self, field)}: it must be at least 1")
        for field in ("weight_decay", "clip"):
            if not 0 <= getattr(self, field) < float("inf"):
                name = field.replace("_", "-")
                raise UsageError(
                    f"--{name} is {getattr(self, field)}: it must be a number from 0 up"
                )
        if self.lr is not None and not 0 < self.lr < float("inf"):
            raise UsageError(f"--lr is {self.lr}: it must be above 0")
        if self.lr_warmup is not None and self.lr_warmup < 0:
            raise UsageError(f"--lr-warmup is {self.lr_warmup}: it cannot be negative")

    def rows_per_micro_batch(self, ranks: int) -> int:
        """Rows that one rank computes at a time; raises UsageError when they are not whole."""
        if self.batch % (ranks * self.accumulate):
            step = ranks * self.accumulate
            nearest = max(step, round(self.batch / step) * step)
            raise UsageError(
                f"--batch {self.batch} does not divide among {ranks} ranks of {self.accumulate} "
                f"micro-batches; the nearest that does is {nearest}"
            )
        return self.batch // (ranks * self.accumulate)


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """A training in full, as asked for: ``steps`` in all, of which ``warmup`` are not timed."""

    model: ModelOptions
    data: DataOptions
    train: TrainOptions
    precision: DtypeName
    compiled: bool
    steps: int
    warmup: int
    seed: int

    def __post_init__(self) -> None:
        if self.steps <= self.warmup:
            raise UsageError(f"--steps is {self.steps - self.warmup}: it must be at least 1")
        for field in ("warmup", "seed"):
            if getattr(self, field) < 0:
                raise UsageError(f"--{field} is {getattr(self, field)}: it cannot be negative")
        if self.seed >= 2**64:
            raise UsageError(f"--seed is {self.seed}: it must be below 2^64")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a long training is watched and kept."""

    val_every: int | None = None
    """Steps between two looks at held-out text; default: a fifth of all steps."""

    val_batches: int = 20
    """Batches of held-out text at each look, and at the end."""

    checkpoint_every: int | None = None
    """Steps between two checkpoints in the run's folder; default: none is kept."""

    resume: Path | None = None
    """Go on from a checkpoint folder, with any strategy and any number of ranks."""

    def __post_init__(self) -> None:
        for field in ("val_every", "val_batches", "checkpoint_every"):
            value = getattr(self, field)
            if value is not None and value < 1:
                name = field.replace("_", "-")
                raise UsageError(f"--{name} is {value}: it must be at least 1")
