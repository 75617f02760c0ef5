"""Options of a training run: frozen, checked, and free of torch."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypedDict

from cyclopts import Parameter

from steptime.errors import UsageError
from steptime.limits import LIMITS, check_limits, check_within
from steptime.train.parallel.options import ParallelOptions
from steptime.units import Size
from steptime.workloads.precision import DtypeName, PrecisionName, Rounding
from steptime.workloads.spec import Recompute

if TYPE_CHECKING:
    from steptime.workloads.models import Transformer

TokenizerName: TypeAlias = Literal["byte", "bpe", "gpt2"]
BadLoss: TypeAlias = Literal["stop", "skip", "rollback"]
ScheduleName: TypeAlias = Literal["cosine", "linear", "constant", "wsd"]


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Where the training text comes from and how it becomes tokens."""

    data: Path | None = None
    """A text file, a folder of text, what steptime data prepare made, or llm.c/nanoGPT .bin token
    shards (a file or a folder of them). Default: the Python standard library's own sources."""

    tokenizer: TokenizerName | None = None
    """byte: one token a byte; bpe: byte-pair encoding trained on the data; gpt2: GPT-2's own.
    Default: byte, or that of prepared data."""

    vocabulary: int | None = None
    """Number of tokens of the trained bpe; default: 4096."""

    @property
    def bpe_vocabulary(self) -> int:
        """Tokens of the trained bpe, by default 4096."""
        return 4096 if self.vocabulary is None else self.vocabulary


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model: one by its name, or that with other dimensions, or that of weights."""

    name: Annotated[str | None, Parameter(parse=False)] = None
    """As gpt2-124M, or a file; default: gpt2-nano."""

    model: str | None = None
    """The size of a GPT-2 alone, as nano, micro, 124M, 355M, 774M or 1558M."""

    layers: int | None = None
    """Number of blocks, if not the model's."""

    heads: int | None = None
    """Attention heads a block, if not the model's."""

    kv_heads: int | None = None
    """Heads of keys and values, if not the model's."""

    hidden: Annotated[int | None, Parameter(name=("--hidden", "--embd"))] = None
    """Channels, if not the model's."""

    ffn: int | None = None
    """Width of the MLP, if not the model's."""

    experts: int | None = None
    """MLPs a block, of which each token goes through two, if not the model's."""

    tokens: int | None = None
    """Tokens a row, if not as many as the model has positions for."""

    init: Path | None = None
    """Weights and dimensions from an llm.c checkpoint, such as gpt2_124M.bin, or from Hugging
    Face's safetensors: a file beside its config.json, or their folder."""

    def __post_init__(self) -> None:
        if self.model and self.name not in (None, "gpt2", f"gpt2-{self.model}"):
            raise UsageError(f"{self.name} and --model {self.model} are two models: leave one out")
        check_limits(self)
        if self.init and (given := [*self._dimensions, *(["experts"] if self.experts else [])]):
            words = ", ".join("--" + name.replace("_", "-") for name in given)
            raise UsageError(f"{self.init} has dimensions of its own: leave out {words}")
        if any(getattr(self, one.name) != one.default for one in fields(self)):
            self.row(self.config(vocabulary=1))

    @property
    def _dimensions(self) -> dict[str, int]:
        names = ("layers", "hidden", "heads", "kv_heads", "ffn")
        told = {name: getattr(self, name) for name in names}
        return {name: size for name, size in told.items() if size is not None}

    def config(self, vocabulary: int) -> "Transformer":
        """The model asked for, with so many tokens unless a file says how many.

        It has positions for a row as long as is asked for. Raises UsageError where its dimensions
        do not fit together, or it cannot be trained.
        """
        from steptime.train.config import NANO, gpt2_of_size, named_by_blocks, trainable
        from steptime.workloads.models import Transformer, with_dimensions

        if self.init:
            from steptime.train.weights import weights_at

            return weights_at(self.init).dimensions()
        found = gpt2_of_size(self.model) if self.model else trainable(self.name or NANO)
        model = with_dimensions(found, self._dimensions)
        assert isinstance(model, Transformer)  # noqa: S101 - as it was
        if self.experts:
            model = replace(model, experts=self.experts, top_k=min(2, self.experts))
        context = self.tokens or model.context
        return named_by_blocks(replace(model, context=context, vocabulary=vocabulary))

    def row(self, config: "Transformer") -> int:
        """Tokens a row for a model of these dimensions; raises UsageError when it has fewer."""
        if self.tokens is not None and not 1 <= self.tokens <= config.context:
            raise UsageError(
                f"--tokens is {self.tokens}: the model has positions for 1 to {config.context}"
            )
        return self.tokens or config.context


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How the model is trained; the same for one rank and for many."""

    batch: int = 32
    """Rows of the global batch, all ranks and micro-batches together."""

    accumulate: int = 1
    """Micro-batches whose gradients add up to one step."""

    lr: float | None = None
    """Peak learning rate; default: what suits the model."""

    lr_schedule: ScheduleName = "cosine"
    """How the learning rate goes after its warm-up: cosine, linear, constant or wsd."""

    lr_warmup: int | None = None
    """Steps over which the learning rate climbs; default: a tenth of all steps, at least 20."""

    weight_decay: float = 0.1
    """AdamW's decay of matrices and embeddings."""

    clip: float = 1.0
    """Largest norm of the whole gradient; 0 leaves it as it is."""

    reduce_dtype: DtypeName = "fp32"
    """The dtype in which gradients are communicated."""

    rounding: Rounding = "nearest"
    """How bf16-params stores updated weights: to the nearest, or up or down by chance."""

    bucket: Size = Size("25MiB")  # noqa: RUF009 - a Size is immutable
    """Bucket size of the overlapped strategies, at most an eighth of the gradients."""

    def __post_init__(self) -> None:
        check_limits(self)
        for option in ("weight_decay", "clip"):
            if not 0 <= getattr(self, option) < float("inf"):
                name = option.replace("_", "-")
                raise UsageError(
                    f"--{name} is {getattr(self, option)}: it must be a number from 0 up"
                )
        if self.lr is not None and not 0 < self.lr < float("inf"):
            raise UsageError(f"--lr is {self.lr}: it must be above 0")

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
    parallel: ParallelOptions = field(default_factory=ParallelOptions)
    precision: PrecisionName
    compiled: bool
    steps: int
    warmup: int
    seed: int

    def __post_init__(self) -> None:
        check_within("--steps", self.steps - self.warmup, *LIMITS["steps"])
        check_limits(self)
        if self.train.rounding == "stochastic" and self.precision != "bf16-params":
            raise UsageError(
                "--rounding stochastic is for weights that are kept in bf16, and --precision "
                f"{self.precision} keeps them in fp32: choose --precision bf16-params, or leave "
                "it out"
            )


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a long training is watched and kept."""

    val_every: int | None = None
    """Steps between two looks at held-out text; default: a fifth of all steps."""

    val_batches: int = 20
    """Batches of held-out text at each look, and at the end."""

    checkpoint_every: int | None = None
    """Steps between two checkpoints in the run's folder, and one at the end, or when SIGTERM comes;
    default: none is kept."""

    keep_checkpoints: int = 3
    """How many of the newest checkpoints stay, beside that of the last step."""

    resume: Literal["auto"] | Path | None = None
    """Go on from a checkpoint, or from the newest good one of a run's folder, with any strategy and
    any number of ranks; auto: from that of --out, and from the beginning where there is none."""

    on_bad_loss: BadLoss = "stop"
    """When the loss is no number, or three times that of guessing: stop; skip: leave the step's
    update out; rollback: go back to the last checkpoint and on with the data behind the step."""

    def __post_init__(self) -> None:
        check_limits(self)
        if self.on_bad_loss == "rollback" and self.checkpoint_every is None:
            raise UsageError(
                "--on-bad-loss rollback goes back to checkpoints: give --checkpoint-every"
            )


class TrainingOptions(TypedDict, total=False):
    """The fields of all groups of options of a training as keyword arguments, but for the model."""

    layers: int | None
    heads: int | None
    kv_heads: int | None
    hidden: int | None
    ffn: int | None
    experts: int | None
    tokens: int | None
    init: str | Path | None
    data: str | Path | None
    tokenizer: TokenizerName | None
    vocabulary: int | None
    batch: int
    accumulate: int
    lr: float | None
    lr_schedule: ScheduleName
    lr_warmup: int | None
    weight_decay: float
    clip: float
    reduce_dtype: DtypeName
    rounding: Rounding
    bucket: Size | str
    tensor: int
    pipeline: int
    context: int
    expert: int
    sequence_parallel: bool
    schedule: str | None
    interleave: int | None
    micro_batches: int | None
    zero: int | None
    recompute: Recompute
    val_every: int | None
    val_batches: int
    checkpoint_every: int | None
    keep_checkpoints: int
    resume: str | Path | None
    on_bad_loss: BadLoss
