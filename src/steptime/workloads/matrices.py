"""Matrices of a transformer: what its blocks and its head multiply tokens with, and how it is cut.

The same list stands for a kernel each in a simulated step and in a closed form over many layouts.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from steptime.workloads.models import Transformer

Side: TypeAlias = Literal["outputs", "inputs", "neither"]


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A matrix of ``outputs`` × ``inputs`` that one kernel multiplies tokens with.

    ``cut``: the side that tensor-parallel ranks divide (arXiv 1909.08053, section 3). ``experts``:
    how many there are, of which every token meets ``met``; the ranks along expert divide them.
    """

    name: str
    outputs: int
    inputs: int
    cut: Side = "outputs"
    experts: int = 1
    met: int = 1


def attention_matrices(model: Transformer) -> tuple[Matrix, ...]:
    """Those of attention in a block: to queries, keys and values, and out again."""
    h, queries = model.hidden, model.heads * model.query_width
    values = model.heads * model.value_width
    out = Matrix(name="proj", outputs=h, inputs=values, cut="inputs")
    latent = model.latent
    if latent is None:
        keys = model.kv_heads * (model.query_width + model.value_width)
        return Matrix(name="qkv", outputs=queries + keys, inputs=h), out
    narrow = latent.kv_rank + latent.rope_width
    up = model.heads * (latent.nope_width + latent.value_width)
    down = Matrix(name="down", outputs=latent.query_rank + narrow, inputs=h, cut="neither")
    made = Matrix(name="q", outputs=queries, inputs=latent.query_rank or h)
    return down, made, Matrix(name="kv up", outputs=up, inputs=latent.kv_rank), out


def mlp_matrices(model: Transformer, *, dense: bool) -> tuple[Matrix, ...]:
    """Those of the MLP of a block, ``dense`` or a mixture of experts where the model has them."""
    if dense or model.experts == 1:
        return _pair(model, "mlp", model.inner)
    inner = model.expert_inner or model.inner
    router = Matrix(name="router", outputs=model.experts, inputs=model.hidden, cut="neither")
    shared = _pair(model, "shared", model.shared_inner) if model.shared_inner else ()
    routed = _pair(model, "expert", inner, experts=model.experts, met=model.top_k)
    return router, *shared, *routed


def head_matrix(model: Transformer) -> Matrix:
    """The one of the head, which makes logits."""
    return Matrix(name="head", outputs=model.vocabulary, inputs=model.hidden)


def _pair(
    model: Transformer, name: str, inner: int, *, experts: int = 1, met: int = 1
) -> tuple[Matrix, Matrix]:
    """Into the inner width, gate included, and out of it."""
    into = inner * (2 if model.architecture.gated else 1)
    h = model.hidden
    return (
        Matrix(name=f"{name} in", outputs=into, inputs=h, experts=experts, met=met),
        Matrix(name=f"{name} out", outputs=h, inputs=inner, cut="inputs", experts=experts, met=met),
    )
