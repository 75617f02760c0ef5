"""Models by their dimensions, from which tensors, parameters and FLOPs are computed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from steptime.errors import UsageError


@dataclass(frozen=True)
class Tensor:
    """One parameter of a model. ``split``: tensor parallelism cuts it among its ranks."""

    name: str
    shape: tuple[int, ...]
    split: bool

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A stretch of the model that tensor-parallel ranks compute without a word to each other.

    ``multiplied``: parameters that each token is multiplied with, those of the tied table included.
    ``attending``: FLOP that one token spends in forward on each token of its row.
    """

    name: str
    tensors: tuple[Tensor, ...]
    multiplied: int
    attending: int = 0

    @property
    def parameters(self) -> int:
        """Elements of its tensors."""
        return sum(tensor.size for tensor in self.tensors)

    def parameters_of_shard(self, ranks: int) -> int:
        """Elements that each of ``ranks`` tensor-parallel ranks holds."""
        return sum(t.size // ranks if t.split else t.size for t in self.tensors)

    def forward_flops(self, row: int) -> float:
        """FLOP of the forward of one token in a row of ``row``; backward takes twice as many."""
        return 2.0 * self.multiplied + float(self.attending) * row


@dataclass(frozen=True)
class Unit:
    """What forward runs one after the other: the embedding, each block, the head."""

    name: str
    parts: tuple[Part, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors of its parts, in order."""
        return tuple(tensor for part in self.parts for tensor in part.tensors)

    @property
    def parameters(self) -> int:
        """Elements of its tensors."""
        return sum(part.parameters for part in self.parts)

    def forward_flops(self, row: int) -> float:
        """FLOP of the forward of one token in a row of ``row``; backward takes twice as many."""
        return sum(part.forward_flops(row) for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A GPT-2: pre-norm blocks, learned positions, the head tied to the embedding.

    ``hidden`` is the width of the residual stream, ``context`` the number of positions. Radford et
    al., "Language Models are Unsupervised Multitask Learners" (2019); GPT-3 is the same but for
    attention that is sparse in every other block (Brown et al., arXiv 2005.14165, section 2.1),
    here counted as dense.

    Raises UsageError for a dimension below 1, and for heads that do not divide ``hidden``.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    context: int
    vocabulary: int

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "heads", "context", "vocabulary"):
            if getattr(self, field) < 1:
                raise UsageError(
                    f"{self.name} has {getattr(self, field)} {field}: it must be at least 1"
                )
        if self.hidden % self.heads:
            raise UsageError(
                f"{self.heads} heads do not divide the hidden size {self.hidden} of {self.name}"
            )

    def padded(self, multiple: int = 128) -> "Transformer":
        """The same with its vocabulary rounded up, as training lays it out (llm.c, Megatron-LM)."""
        return replace(self, vocabulary=-(-self.vocabulary // multiple) * multiple)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Embedding, blocks and head in forward order, their tensors as PyTorch enumerates them."""
        h = self.hidden
        table = Tensor("embedding.wte", (self.vocabulary, h), split=True)
        positions = Tensor("embedding.wpe", (self.context, h), split=False)
        norm = tuple(_norm("head.ln", h))
        embedding = Part(name="embedding", tensors=(table, positions), multiplied=0)
        head = Part(name="head", tensors=norm, multiplied=table.size + 2 * h)
        return (
            Unit("embedding", (embedding,)),
            *(Unit(f"block {n}", _block(f"blocks.{n}", h)) for n in range(self.layers)),
            Unit("head", (head,)),
        )

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(unit.parameters for unit in self.units)

    def flops_per_token(self, row: int | None = None) -> float:
        """FLOP of forward and backward for one token in rows of ``row``, by default the context.

        6 a parameter that multiplies and 12·layers·hidden·row for attention (PaLM, arXiv
        2204.02311, appendix B).
        """
        return 3 * sum(unit.forward_flops(row or self.context) for unit in self.units)

    def row(self, context: int | None) -> int:
        """Tokens a row where ``context`` are asked for; None asks for as many as there can be.

        Raises UsageError when the model has not so many positions.
        """
        if context is not None and not 1 <= context <= self.context:
            raise UsageError(
                f"the context is {context} and {self.name} has positions for 1 to {self.context}"
            )
        return context or self.context


def _block(name: str, h: int) -> tuple[Part, Part]:
    attention = (
        *_norm(f"{name}.ln1", h),
        *_linear(f"{name}.attention.qkv", h, 3 * h, by_column=True),
        *_linear(f"{name}.attention.proj", h, h, by_column=False),
    )
    mlp = (
        *_norm(f"{name}.ln2", h),
        *_linear(f"{name}.mlp.fc", h, 4 * h, by_column=True),
        *_linear(f"{name}.mlp.proj", 4 * h, h, by_column=False),
    )
    return (
        # 2h for a score and 2h for what it weighs, with every token of the row.
        Part(name="attention", tensors=attention, multiplied=_size(attention), attending=4 * h),
        Part(name="mlp", tensors=mlp, multiplied=_size(mlp)),
    )


def _norm(name: str, h: int) -> Iterable[Tensor]:
    return (Tensor(f"{name}.{which}", (h,), split=False) for which in ("weight", "bias"))


def _linear(name: str, inputs: int, outputs: int, *, by_column: bool) -> Iterable[Tensor]:
    """Cut by column the bias is cut too; by row every rank adds to all outputs (Megatron-LM)."""
    yield Tensor(f"{name}.weight", (outputs, inputs), split=True)
    yield Tensor(f"{name}.bias", (outputs,), split=by_column)


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.size for tensor in tensors)


_BPE_TOKENS = 50257

# layers, hidden, heads
_GPT2 = {
    "124M": (12, 768, 12),
    "355M": (24, 1024, 16),
    "774M": (36, 1280, 20),
    "1558M": (48, 1600, 25),
}
# Table 2.1 of the paper. It gives XL 24 heads of 128 and 13B a width of 5140, which contradict
# themselves: heads of 128 make them 16 and 5120.
_GPT3 = {
    "125M": (12, 768, 12),
    "350M": (24, 1024, 16),
    "760M": (24, 1536, 16),
    "1.3B": (24, 2048, 16),
    "2.7B": (32, 2560, 32),
    "6.7B": (32, 4096, 32),
    "13B": (40, 5120, 40),
    "175B": (96, 12288, 96),
}
_ALSO = {"gpt2": "gpt2-124M", "gpt2-350M": "gpt2-355M", "gpt2-1.5B": "gpt2-1558M"}
"""Other names that the sizes go by."""


def model_names() -> tuple[str, ...]:
    """The names of all models, family by family and from small to large."""
    return (*(f"gpt2-{size}" for size in _GPT2), *(f"gpt3-{size}" for size in _GPT3))


def model_named(name: str) -> Transformer:
    """The model of that name; raises UsageError, naming all there are, where there is none."""
    known = _ALSO.get(name, name)
    if known not in model_names():
        raise UsageError(f"there is no model {name!r}: choose one of {', '.join(model_names())}")
    family, _, size = known.partition("-")
    sizes, context = (_GPT2, 1024) if family == "gpt2" else (_GPT3, 2048)
    layers, hidden, heads = sizes[size]
    return Transformer(
        name=known,
        layers=layers,
        hidden=hidden,
        heads=heads,
        context=context,
        vocabulary=_BPE_TOKENS,
    )
