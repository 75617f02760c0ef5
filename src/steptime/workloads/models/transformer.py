"""Transformers by their dimensions, from GPT-2 to mixtures of experts."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property

from steptime.errors import UsageError
from steptime.workloads.models.parts import Part, Tensor, Unit, linear, norm, size

_MOST, _MOST_MLPS = (1 << 31) - 1, 1 << 17  # the largest today have 16,000 MLPs
_OF_EXPERTS = ("expert_inner", "shared_inner", "dense_layers")


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The features that the transformers of a family share; by default, GPT-2's.

    ``fused``: one matrix makes queries, keys and values. ``gated``: a third matrix of the MLP gates
    its inner activations (SwiGLU). ``biased``: matrices and norms have biases (RMSNorm has none).
    ``learned_positions``: in contrast to rotary ones, which have no parameters. ``tied``: the head
    multiplies with the table of the embedding. ``masked``: blocks are post-norm and training is
    BERT's: fill in tokens, and tell whether one sentence follows another. ``dropout``: training
    drops activations at random.

    ``qkv_biased``, ``proj_biased``: the projections to queries, keys and values, and the output
    projection of attention, have biases though other matrices have none. ``qk_norm``: every head's
    queries and keys are normalised. ``router_biased``: experts have a bias that balances them.
    ``shared_gated``: the output of the shared expert is weighted by a projection of its own.
    """

    fused: bool = True
    gated: bool = False
    biased: bool = True
    learned_positions: bool = True
    tied: bool = True
    masked: bool = False
    dropout: bool = True
    qkv_biased: bool = False
    proj_biased: bool = False
    qk_norm: bool = False
    router_biased: bool = False
    shared_gated: bool = False


@dataclass(frozen=True, kw_only=True)
class Latent:
    """Multi-head latent attention: queries, keys and values are computed from narrow vectors.

    ``query_rank`` and ``kv_rank``: the widths of these vectors; with 0 queries come from the
    residual stream. Of each head's queries and keys ``nope_width`` have no positions and
    ``rope_width`` rotary ones, for which all heads share their key; its values have
    ``value_width``. DeepSeek-V2, arXiv 2405.04434, section 2.1.
    """

    query_rank: int = 0
    kv_rank: int
    nope_width: int
    rope_width: int
    value_width: int


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A transformer; the defaults are GPT-2's.

    ``hidden`` is the width of the residual stream, ``inner`` that of the MLP (4 × hidden) and
    ``context`` the number of positions. ``kv_heads``: heads of keys and values, each shared by a
    group of query heads; all have ``head_width`` (hidden / heads). A token attends to the last
    ``window`` tokens, 0 for all of its row. Radford et al., "Language Models are Unsupervised
    Multitask Learners" (2019).

    Each token goes through ``top_k`` of ``experts`` MLPs of width ``expert_inner`` (inner), and
    through one of ``shared_inner`` where that is not 0; the first ``dense_layers`` have one MLP.

    Raises UsageError for a dimension below 1, for heads that do not divide ``hidden`` or key heads
    that do not divide them, for more experts a token or more dense layers than there are, for
    dimensions of experts where there are none, and for more than memory would hold.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    context: int
    vocabulary: int
    kv_heads: int = 0
    head_width: int = 0
    window: int = 0
    latent: Latent | None = None
    inner: int = 0
    experts: int = 1
    top_k: int = 1
    expert_inner: int = 0
    shared_inner: int = 0
    dense_layers: int = 0
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
            if value > _MOST:
                raise UsageError(f"the {field} of {self.name} is too large: it must be below 2^31")
        if self.layers * self.experts > _MOST_MLPS:
            raise UsageError(
                f"{self.name} has {self.layers:,} layers of {self.experts:,} MLPs: together there "
                f"must be at most {_MOST_MLPS:,}"
            )
        if self.latent and (self.head_width or self.kv_heads != self.heads):
            raise UsageError(
                f"{self.name} has latent attention, which tells the widths of its heads and gives "
                "each its own keys: leave out head_width and kv_heads"
            )
        if not (self.head_width or self.latent):
            self._check_heads(self.heads, "heads", "hidden size", self.hidden)
        self._check_heads(self.kv_heads, "key heads", "heads", self.heads)
        for name in _OF_EXPERTS if self.experts == 1 else ():
            if getattr(self, name):
                raise UsageError(f"{self.name} has no experts: leave out its {name}")
        self._check_at_most("experts", "sends a token through", self.top_k, self.experts)
        self._check_at_most("layers", "has one MLP in", self.dense_layers, self.layers)

    def _check_heads(self, count: int, what: str, of: str, total: int) -> None:
        if total % count:
            raise UsageError(f"{count} {what} do not divide the {of} {total} of {self.name}")

    def _check_at_most(self, what: str, does: str, count: int, most: int) -> None:
        if count > most:
            raise UsageError(
                f"{self.name} {does} {count} of {most} {what}: it must be at most {most}"
            )

    @property
    def dimensions(self) -> dict[str, int]:
        """The dimensions that define it, by name; rare ones only where it has them."""
        names = ["layers", "hidden", "heads", "kv_heads", "inner", "context", "vocabulary"]
        found = {name: getattr(self, name) for name in names}
        rare = {"head_width": self.head_width, "window": self.window}
        if self.latent:
            rare |= asdict(self.latent)
        if (self.experts, self.top_k) != (1, 1):
            found |= {"experts": self.experts, "top_k": self.top_k}
        rare |= {name: getattr(self, name) for name in _OF_EXPERTS}
        return found | {name: value for name, value in rare.items() if value}

    @property
    def query_width(self) -> int:
        """Width of each head's queries and keys."""
        if self.latent:
            return self.latent.nope_width + self.latent.rope_width
        return self.head_width or self.hidden // self.heads

    @property
    def value_width(self) -> int:
        """Width of each head's values."""
        return self.latent.value_width if self.latent else self.query_width

    @property
    def kv_width(self) -> int:
        """Width of the keys and values of all heads together."""
        return self.kv_heads * (self.query_width + self.value_width)

    @property
    def split(self) -> dict[str, int]:
        """The dimensions that tensor-parallel ranks divide, by name."""
        inner = {
            "inner columns": self.inner,
            "inner columns of an expert": self.expert_inner,
            "inner columns of the shared expert": self.shared_inner,
        }
        heads = {"heads": self.heads, "key heads": self.kv_heads}
        return heads | {what: count for what, count in inner.items() if count}

    def with_layers(self, layers: int) -> "Transformer":
        """The same model with so many layers."""
        return replace(self, layers=layers, dense_layers=min(self.dense_layers, layers))

    def padded(self, multiple: int = 128) -> "Transformer":
        """The model with its vocabulary rounded up, as training does (llm.c, Megatron-LM)."""
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
        """Elements that one token uses: of the experts only those it is sent to."""
        experts = size(t for unit in self.units for t in unit.tensors if t.expert)
        return self.parameters - experts // self.experts * (self.experts - self.top_k)

    def flops_per_token(self, row: int | None = None) -> float:
        """FLOP of forward and backward for one token in rows of ``row``, by default the context.

        6 a parameter that multiplies and 12·layers·hidden·row for attention (PaLM, arXiv
        2204.02311, appendix B).
        """
        return 3 * sum(unit.forward_flops(row or self.context) for unit in self.units)

    def row(self, context: int | None) -> int:
        """Tokens a row where ``context`` are asked for; None asks for the maximum.

        Raises UsageError when the model has fewer positions.
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
    name = f"blocks.{number}"
    if model.latent:
        products = _latent_products(model, model.latent, f"{name}.attention")
    else:
        products = _products(model, f"{name}.attention")
    tensors = _normed(f"{name}.ln1", products, model)
    queries, values = model.heads * model.query_width, model.heads * model.value_width
    normed = queries + model.kv_heads * model.query_width if model.architecture.qk_norm else 0
    latents = [t for t in tensors if "_down." in t.name or "_norm." in t.name]
    return Part(
        name="attention",
        tensors=tensors,
        multiplied=size(tensors),
        # 2 a channel for a score and 2 for what it weighs, with every token that it sees.
        attending=2 * (queries + values),
        window=model.window,
        duplicated=size(latents) if model.latent else 0,
        kept=queries + model.kv_width + values + normed,
        # What comes out of each down-projection, and out of its norm.
        kept_whole=sum(t.shape[0] for t in latents) if model.latent else 0,
    )


def _products(model: Transformer, name: str) -> list[Tensor]:
    """The projections to queries, keys and values, and the output projection."""
    h, kind, queries = model.hidden, model.architecture, model.heads * model.query_width
    keys = model.kv_heads * model.query_width
    made = {"qkv": queries + 2 * keys} if kind.fused else {"q": queries, "k": keys, "v": keys}
    biased = kind.biased or kind.qkv_biased
    tensors = [
        tensor
        for which, width in made.items()
        for tensor in linear(f"{name}.{which}", h, width, biased=biased, by_column=True)
    ]
    if kind.qk_norm:
        for which in ("q_norm", "k_norm"):
            tensors += norm(f"{name}.{which}", model.query_width, biased=kind.biased)
    biased = kind.biased or kind.proj_biased
    return [*tensors, *linear(f"{name}.proj", queries, h, biased=biased)]


def _latent_products(model: Transformer, latent: Latent, name: str) -> list[Tensor]:
    """The projections of latent attention; every tensor-parallel rank makes the narrow vectors."""
    h, heads = model.hidden, model.heads
    queries = heads * model.query_width
    tensors: list[Tensor] = []
    if latent.query_rank:
        tensors += linear(f"{name}.q_down", h, latent.query_rank, biased=False, split=False)
        tensors += norm(f"{name}.q_norm", latent.query_rank, biased=False)
        tensors += linear(f"{name}.q_up", latent.query_rank, queries, biased=False)
    else:
        tensors += linear(f"{name}.q", h, queries, biased=False)
    narrow = latent.kv_rank + latent.rope_width
    up = heads * (latent.nope_width + latent.value_width)
    tensors += linear(f"{name}.kv_down", h, narrow, biased=False, split=False)
    tensors += norm(f"{name}.kv_norm", latent.kv_rank, biased=False)
    tensors += linear(f"{name}.kv_up", latent.kv_rank, up, biased=False)
    return [*tensors, *linear(f"{name}.proj", heads * latent.value_width, h, biased=False)]


def _mlp(model: Transformer, number: int) -> Part:
    name, made = f"blocks.{number}", 3 if model.architecture.gated else 2
    if model.experts == 1 or number < model.dense_layers:
        tensors = _normed(f"{name}.ln2", _matrices(model, f"{name}.mlp", model.inner), model)
        return Part(name="mlp", tensors=tensors, multiplied=size(tensors), kept=made * model.inner)
    inner = model.expert_inner or model.inner
    experts = [
        tensor
        for expert in range(model.experts)
        for tensor in _matrices(model, f"{name}.mlp.experts.{expert}", inner, expert=True)
    ]
    tensors = _normed(f"{name}.ln2", [*_for_all(model, f"{name}.mlp"), *experts], model)
    idle = size(experts) // model.experts * (model.experts - model.top_k)
    # The tokens of a batch meet all experts among them: all are read.
    return Part(
        name="mlp",
        tensors=tensors,
        multiplied=size(tensors),
        multiply_adds=size(tensors) - idle,
        kept=made * (inner * model.top_k + model.shared_inner),
    )


def _for_all(model: Transformer, name: str) -> list[Tensor]:
    """The parts besides the experts that every token uses: the router, and the shared expert."""
    h, kind = model.hidden, model.architecture
    tensors = [*linear(f"{name}.router", h, model.experts, biased=kind.router_biased, split=False)]
    if model.shared_inner:
        tensors += _matrices(model, f"{name}.shared", model.shared_inner)
        if kind.shared_gated:
            tensors += linear(f"{name}.shared_gate", h, 1, biased=False, split=False)
    return tensors


def _matrices(model: Transformer, name: str, inner: int, *, expert: bool = False) -> list[Tensor]:
    """The matrices of one MLP, and their biases."""
    h, kind = model.hidden, model.architecture
    into = ("gate", "fc") if kind.gated else ("fc",)
    tensors: list[Tensor] = []
    for which in into:
        tensors += linear(
            f"{name}.{which}", h, inner, biased=kind.biased, by_column=True, expert=expert
        )
    return [*tensors, *linear(f"{name}.proj", inner, h, biased=kind.biased, expert=expert)]


def _normed(name: str, products: list[Tensor], model: Transformer) -> tuple[Tensor, ...]:
    """Half of a block: its norm comes before its products or, in BERT, after them."""
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
    """BERT's head: the pooler, the prediction of masked tokens and of the next sentence."""
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
