"""Transformers by their dimensions, from GPT-2 to mixtures of experts."""

from dataclasses import dataclass, replace
from functools import cached_property

from steptime.errors import UsageError
from steptime.workloads.models.parts import Part, Tensor, Unit, linear, norm, size


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What the transformers of a family have in common; by default, what GPT-2 has.

    ``fused``: one matrix makes queries, keys and values. ``gated``: a third matrix of the MLP
    gates its inner activations (SwiGLU). ``biased``: matrices and norms have biases (RMSNorm has
    none). ``learned_positions``: rotary ones have no parameters. ``tied``: the head multiplies
    with the table of the embedding. ``masked``: blocks are post-norm and it is trained as BERT is,
    to fill in tokens and to tell whether one sentence follows another. ``dropout``: training drops
    activations at random.
    """

    fused: bool = True
    gated: bool = False
    biased: bool = True
    learned_positions: bool = True
    tied: bool = True
    masked: bool = False
    dropout: bool = True


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A transformer; what is left out is as in GPT-2.

    ``hidden`` is the width of the residual stream, ``inner`` that of the MLP (4 × hidden) and
    ``context`` the number of positions. ``kv_heads``: heads that keys and values have, which
    groups of query heads share. Each token goes through ``top_k`` of ``experts`` MLPs. Radford et
    al., "Language Models are Unsupervised Multitask Learners" (2019).

    Raises UsageError for a dimension below 1, for heads that do not divide ``hidden`` or key heads
    that do not divide them, and for more experts a token than there are.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    context: int
    vocabulary: int
    kv_heads: int = 0
    inner: int = 0
    experts: int = 1
    top_k: int = 1
    architecture: Architecture = Architecture()
    title: str = "a transformer"
    source: str = ""

    sample = "row"

    def __post_init__(self) -> None:
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "inner", self.inner or 4 * self.hidden)
        for field, value in self.dimensions.items():
            if value < 1:
                raise UsageError(f"{self.name} has {value} {field}: it must be at least 1")
        for count, what, of, total in (
            (self.heads, "heads", "hidden size", self.hidden),
            (self.kv_heads, "key heads", "heads", self.heads),
        ):
            if total % count:
                raise UsageError(f"{count} {what} do not divide the {of} {total} of {self.name}")
        if self.top_k > self.experts:
            raise UsageError(
                f"{self.name} sends a token through {self.top_k} of {self.experts} experts: it "
                f"must be at most {self.experts}"
            )

    @property
    def dimensions(self) -> dict[str, int]:
        """What it is made from, by name; experts only where there are several."""
        names = ["layers", "hidden", "heads", "kv_heads", "inner", "context", "vocabulary"]
        mixes = (self.experts, self.top_k) != (1, 1)
        return {name: getattr(self, name) for name in names + ["experts", "top_k"] * mixes}

    def padded(self, multiple: int = 128) -> "Transformer":
        """The same with its vocabulary rounded up, as training lays it out (llm.c, Megatron-LM)."""
        return replace(self, vocabulary=-(-self.vocabulary // multiple) * multiple)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Embedding, blocks and head in forward order, their tensors as PyTorch enumerates them."""
        blocks = (
            Unit(f"block {n}", (_attention(self, n), _mlp(self, n)), self.hidden)
            for n in range(self.layers)
        )
        return (
            Unit("embedding", (_embedding(self),), self.hidden),
            *blocks,
            Unit("head", (_head(self),), self.vocabulary),
        )

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(unit.parameters for unit in self.units)

    @property
    def active_parameters(self) -> int:
        """Elements of the tensors that one token meets: of the experts only those it goes to."""
        experts = size(t for unit in self.units for t in unit.tensors if t.expert)
        return self.parameters - experts // self.experts * (self.experts - self.top_k)

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


def _embedding(model: Transformer) -> Part:
    h, kind = model.hidden, model.architecture
    tensors = [_table(model)]
    if kind.learned_positions:
        tensors.append(Tensor("embedding.wpe", (model.context, h), split=False))
    if kind.masked:
        tensors.append(Tensor("embedding.segments", (2, h), split=False))
        tensors += norm("embedding.ln", h)
    # GPT-2's convention: looking up and adding are no multiplications.
    return Part(name="embedding", tensors=tuple(tensors), multiplied=0)


def _table(model: Transformer) -> Tensor:
    return Tensor("embedding.wte", (model.vocabulary, model.hidden), split=True)


def _attention(model: Transformer, number: int) -> Part:
    h, kind, name = model.hidden, model.architecture, f"blocks.{number}"
    keys = h // model.heads * model.kv_heads
    made = {"qkv": h + 2 * keys} if kind.fused else {"q": h, "k": keys, "v": keys}
    products = [
        tensor
        for which, width in made.items()
        for tensor in linear(
            f"{name}.attention.{which}", h, width, biased=kind.biased, by_column=True
        )
    ]
    products += linear(f"{name}.attention.proj", h, h, biased=kind.biased)
    tensors = _normed(f"{name}.ln1", products, model)
    # 2h for a score and 2h for what it weighs, with every token of the row.
    return Part(name="attention", tensors=tensors, multiplied=size(tensors), attending=4 * h)


def _mlp(model: Transformer, number: int) -> Part:
    name = f"blocks.{number}"
    if model.experts == 1:
        tensors = _normed(f"{name}.ln2", _matrices(model, f"{name}.mlp"), model)
        return Part(name="mlp", tensors=tensors, multiplied=size(tensors))
    router = linear(f"{name}.mlp.router", model.hidden, model.experts, biased=False, split=False)
    experts = [
        tensor
        for expert in range(model.experts)
        for tensor in _matrices(model, f"{name}.mlp.experts.{expert}", expert=True)
    ]
    tensors = _normed(f"{name}.ln2", [*router, *experts], model)
    idle = size(experts) // model.experts * (model.experts - model.top_k)
    # The tokens of a batch meet all experts among them: all are read.
    return Part(
        name="mlp",
        tensors=tensors,
        multiplied=size(tensors),
        multiply_adds=size(tensors) - idle,
    )


def _matrices(model: Transformer, name: str, *, expert: bool = False) -> list[Tensor]:
    """The matrices of one MLP, and their biases."""
    h, inner, kind = model.hidden, model.inner, model.architecture
    into = ("gate", "fc") if kind.gated else ("fc",)
    tensors: list[Tensor] = []
    for which in into:
        tensors += linear(
            f"{name}.{which}", h, inner, biased=kind.biased, by_column=True, expert=expert
        )
    return [*tensors, *linear(f"{name}.proj", inner, h, biased=kind.biased, expert=expert)]


def _normed(name: str, products: list[Tensor], model: Transformer) -> tuple[Tensor, ...]:
    """A half of a block: its norm stands before its products or, in BERT, after them."""
    own = tuple(norm(name, model.hidden, biased=model.architecture.biased))
    return (*products, *own) if model.architecture.masked else (*own, *products)


def _head(model: Transformer) -> Part:
    if model.architecture.masked:
        return _masked_head(model)
    tensors = tuple(norm("head.ln", model.hidden, biased=model.architecture.biased))
    table = _table(model)
    if model.architecture.tied:
        return Part(name="head", tensors=tensors, multiplied=size(tensors) + table.size)
    tensors = (*tensors, replace(table, name="head.weight"))
    return Part(name="head", tensors=tensors, multiplied=size(tensors))


def _masked_head(model: Transformer) -> Part:
    """BERT's: the pooler, what fills in a token, and whether a sentence follows."""
    h = model.hidden
    pooled = [
        *linear("head.pooler", h, h, split=False),
        *linear("head.follows", h, 2, split=False),
    ]
    filling = [
        *linear("head.transform", h, h, split=False),
        *norm("head.ln", h),
        Tensor("head.bias", (model.vocabulary,), split=True),
    ]
    multiplied = size(filling) + _table(model).size
    # The pooler sees one token of a row: not one in 100,000 of its FLOP.
    return Part(
        name="head",
        tensors=(*pooled, *filling),
        multiplied=multiplied + size(pooled),
        multiply_adds=multiplied,
    )
