"""Products: what of a unit's computing is matrix products in a dtype of their own, as in fp8.

The products of blocks are in that dtype. Attention's scores, the embedding and the head stay in the
dtype of elements, as Transformer Engine trains (Micikevicius et al., arXiv 2209.05433).
"""

from collections.abc import Iterable
from dataclasses import replace

from steptime.program import Compute
from steptime.workloads.models import Part


def products_dtype(products: str | None, elements: str, parts: Iterable[Part]) -> str:
    """The dtype of a unit's products: ``products`` in a block, ``elements`` elsewhere."""
    block = any(part.attending for part in parts)
    return products if products and block else elements


def in_two_dtypes(op: Compute, products: str, scores: float) -> tuple[Compute, ...]:
    """An op in the dtype of elements with its products in that of ``products``.

    ``scores``: those of its FLOP that are none of products with parameters, which come first.
    """
    if products == op.dtype or op.seconds is not None:
        return (op,)
    rest = replace(op, flops=op.flops - scores, dtype=products)
    if not scores:
        return (rest,)
    of_products = tuple(one for one in op.kernels if one.kind == "product")
    others = tuple(one for one in op.kernels if one.kind != "product")
    first = replace(op, name=f"{op.name} scores", flops=scores, nbytes=0, kernels=others)
    return first, replace(rest, kernels=of_products, after=())
