"""The parts of a transformer: what its embedding, blocks and head hold, multiply and keep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from steptime.workloads.models.parts import Part, Tensor, linear, norm, size

if TYPE_CHECKING:
    from steptime.workloads.models.transformer import Latent, Transformer

_OF_NORM, _OF_SUM = 2, 3  # of each channel: a norm reads and writes, a sum reads two
_LOSS = 2  # of each logit: read, and its exponential written


def embedding(model: Transformer) -> Part:
    """Tokens and, where they are learned, positions."""
    h, kind = model.hidden, model.architecture
    tensors = [_table(model)]
    if kind.learned_positions:
        tensors.append(Tensor("embedding.wpe", (model.context, h), split=False))
    if kind.masked:
        tensors.append(Tensor("embedding.segments", (2, h), split=False))
        tensors += norm("embedding.ln", h)
    # GPT-2's convention: looking up and adding are no multiplications.
    return Part(name="embedding", tensors=tuple(tensors), multiplied=0, moved_whole=2 * h)


def _table(model: Transformer) -> Tensor:
    return Tensor("embedding.wte", (model.vocabulary, model.hidden), split=True)


def attention(model: Transformer, number: int) -> Part:
    """The first half of block ``number``."""
    name = f"blocks.{number}"
    if model.latent:
        products = _latent_products(model, model.latent, f"{name}.attention")
    else:
        products = _products(model, f"{name}.attention")
    tensors = _normed(f"{name}.ln1", products, model)
    queries, values = model.heads * model.query_width, model.heads * model.value_width
    kind = model.architecture
    made = queries + model.kv_heads * model.query_width
    normed = made if kind.qk_norm or kind.qk_norm_whole else 0
    latents = [t for t in tensors if "_down." in t.name or "_norm." in t.name]
    return Part(
        name="attention",
        tensors=tensors,
        multiplied=size(tensors),
        # 2 a channel for a score and 2 for what it weighs, with every token that it sees.
        attending=2 * (queries + values),
        window=model.window_of(number),
        duplicated=size(latents) if model.latent else 0,
        kept=queries + model.kv_width + values + normed,
        # What comes out of each down-projection, and out of its norm.
        kept_whole=sum(t.shape[0] for t in latents) if model.latent else 0,
        heads=model.heads,
        causal=not kind.masked,
        moved=_turned(model) + 2 * normed,
        moved_whole=_between(model),
    )


def _turned(model: Transformer) -> int:
    """Elements of queries and keys that rotary positions read and write."""
    if model.architecture.learned_positions:
        return 0
    return 2 * (model.heads + model.kv_heads) * model.query_width


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
    if kind.qk_norm_whole:
        tensors += norm(f"{name}.q_norm", queries, biased=kind.biased)
        tensors += norm(f"{name}.k_norm", keys, biased=kind.biased)
    if kind.sinks:
        tensors.append(Tensor(f"{name}.sinks", (model.heads,), split=True))
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


def mlp(model: Transformer, number: int) -> Part:
    """The second half of block ``number``: one MLP, or a router and experts."""
    name, made = f"blocks.{number}", 3 if model.architecture.gated else 2
    if model.experts == 1 or number < model.dense_layers:
        tensors = _normed(f"{name}.ln2", _matrices(model, f"{name}.mlp", model.inner), model)
        return Part(
            name="mlp",
            tensors=tensors,
            multiplied=size(tensors),
            kept=made * model.inner,
            moved=made * model.inner,
            moved_whole=_between(model),
        )
    inner = model.expert_inner or model.inner
    # They differ in their names alone, and there may be a hundred thousand of them.
    one = _matrices(model, "", inner, expert=True)
    experts = [
        Tensor(f"{name}.mlp.experts.{expert}{tensor.name}", tensor.shape, tensor.split, True)
        for expert in range(model.experts)
        for tensor in one
    ]
    tensors = _normed(f"{name}.ln2", [*_for_all(model, f"{name}.mlp"), *experts], model)
    # The tokens of a batch meet all experts among them: all are read.
    multiplied = size(tensors)
    return Part(
        name="mlp",
        tensors=tensors,
        multiplied=multiplied,
        multiply_adds=multiplied - size(one) * (model.experts - model.top_k),
        kept=made * (inner * model.top_k + model.shared_inner),
        moved=made * (inner * model.top_k + model.shared_inner),
        moved_whole=_between(model),
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
    biased = kind.biased or kind.mlp_biased
    tensors: list[Tensor] = []
    for which in into:
        tensors += linear(f"{name}.{which}", h, inner, biased=biased, by_column=True, expert=expert)
    return [*tensors, *linear(f"{name}.proj", inner, h, biased=biased, expert=expert)]


def _normed(name: str, products: list[Tensor], model: Transformer) -> tuple[Tensor, ...]:
    """Half of a block: its norm comes before its products or, in BERT, after them, or both."""
    kind = model.architecture
    own = tuple(norm(name, model.hidden, biased=kind.biased))
    if kind.post_norm:
        return (*own, *products, *norm(f"{name}.post", model.hidden, biased=kind.biased))
    return (*products, *own) if kind.masked else (*own, *products)


def _between(model: Transformer) -> int:
    """Elements of a token that the norms of half a block, and its sum, read and write."""
    norms = 1 + model.architecture.post_norm
    return (_OF_NORM * norms + _OF_SUM) * model.hidden


def head(model: Transformer) -> Part:
    """What tells the next token, or a masked one."""
    if model.architecture.masked:
        return _masked_head(model)
    tensors = tuple(norm("head.ln", model.hidden, biased=model.architecture.biased))
    table = _table(model)
    made = Part(
        name="head",
        tensors=tensors,
        multiplied=size(tensors) + table.size,
        borrowed=(table,),
        moved=_LOSS * model.vocabulary,
        moved_whole=2 * model.hidden,
    )
    if model.architecture.tied:
        return made
    return replace(made, tensors=(*tensors, replace(table, name="head.weight")), borrowed=())


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
