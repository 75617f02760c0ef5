"""Transformers by their dimensions, from GPT-2 to mixtures of experts."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property

from steptime.errors import UsageError
from steptime.workloads.models.parts import Unit, size
from steptime.workloads.models.transformer_parts import attention, embedding, head, mlp

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
    projection of attention, have biases though other matrices have none, and so ``mlp_biased``.
    ``qk_norm``: every head's queries and keys are normalised; ``qk_norm_whole``: those of all heads
    together. ``sinks``: every head has a score that takes from those of all tokens (gpt-oss).
    ``post_norm``: each half of a block has a second norm, behind its products (Gemma 2).
    ``router_biased``: experts have a bias that balances them. ``shared_gated``: the output of the
    shared expert is weighted by a projection of its own. ``own_arithmetic``: something is computed
    otherwise that costs the same, as factors at residuals, another activation, or no positions.
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
    mlp_biased: bool = False
    qk_norm: bool = False
    qk_norm_whole: bool = False
    sinks: bool = False
    post_norm: bool = False
    router_biased: bool = False
    shared_gated: bool = False
    own_arithmetic: bool = False


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
    ``window`` tokens, 0 for all of its row, but in ``whole_layers`` to all of it whatever the
    window; they are numbers of layers, from 0. Radford et al., "Language Models are Unsupervised
    Multitask Learners" (2019).

    Each token goes through ``top_k`` of ``experts`` MLPs of width ``expert_inner`` (inner), and
    through one of ``shared_inner`` where that is not 0; the first ``dense_layers`` have one MLP.

    ``rope_theta``: the base of rotary positions. ``norm_epsilon`` keeps norms from dividing by 0.
    Neither changes what a step takes; both change what trained weights compute.

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
    whole_layers: tuple[int, ...] = ()
    latent: Latent | None = None
    inner: int = 0
    experts: int = 1
    top_k: int = 1
    expert_inner: int = 0
    shared_inner: int = 0
    dense_layers: int = 0
    rope_theta: float = 10_000.0
    norm_epsilon: float = 1e-5
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
        self._check_window()
        self._check_at_most("experts", "sends a token through", self.top_k, self.experts)
        self._check_at_most("layers", "has one MLP in", self.dense_layers, self.layers)

    def _check_heads(self, count: int, what: str, of: str, total: int) -> None:
        if total % count:
            raise UsageError(f"{count} {what} do not divide the {of} {total} of {self.name}")

    def _check_window(self) -> None:
        whole = self.whole_layers
        if whole and not self.window:
            raise UsageError(
                f"{self.name} has layers that attend to all of the row and no window in the "
                "others: leave out its whole_layers, or give the window"
            )
        if any(not 0 <= one < self.layers for one in whole) or list(whole) != sorted({*whole}):
            raise UsageError(
                f"the whole_layers of {self.name} must be numbers from 0 to {self.layers - 1}, "
                "each once, in their order"
            )

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
        whole = len(self.whole_layers)
        rare = {"head_width": self.head_width, "window": self.window, "whole_layers": whole}
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

    def window_of(self, layer: int) -> int:
        """How many tokens a token attends to in a layer, counted from 0; 0 for all of its row."""
        return 0 if layer in self.whole_layers else self.window

    @property
    def windowed(self) -> float:
        """The share of the layers that have a window."""
        return 1 - len(self.whole_layers) / self.layers if self.window else 0.0

    def with_layers(self, layers: int) -> "Transformer":
        """The same model with so many layers; where they are more, windows are as if repeated."""
        whole = tuple(n for n in range(layers) if n % self.layers in self.whole_layers)
        dense = min(self.dense_layers, layers)
        return replace(self, layers=layers, dense_layers=dense, whole_layers=whole)

    def padded(self, multiple: int = 128) -> "Transformer":
        """The model with its vocabulary rounded up, as training does (llm.c, Megatron-LM)."""
        return replace(self, vocabulary=-(-self.vocabulary // multiple) * multiple)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Embedding, blocks and head in forward order, their tensors as PyTorch enumerates them."""
        blocks = (
            Unit(f"block {n}", (attention(self, n), mlp(self, n)), self.hidden)
            for n in range(self.layers)
        )
        return (
            Unit("embedding", (embedding(self),), self.hidden),
            *blocks,
            Unit("head", (head(self),), self.vocabulary),
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
