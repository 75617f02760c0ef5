"""Kept: what a block keeps of a token for backward, attention's scores apart.

As Korthikanti et al. (arXiv 2205.05198, section 4), of any width of the MLP and any number of key
heads, and without dropout's masks where a model has none.
"""

from dataclasses import dataclass

from steptime.workloads.models import Transformer, Unit

_NORMS_AND_PRODUCTS = 4  # inputs of the hidden width: of two norms, and of what follows each
_POST_NORMS = 2  # and of the norms behind the halves, where there are any


@dataclass(frozen=True, kw_only=True)
class KeptOfToken:
    """What a block keeps of each token, in elements but for the masks.

    ``whole``: of tokens that a rank holds between the halves of a block; ``mask_bytes``: dropout's
    masks of these. ``split``: what tensor-parallel ranks divide, of tokens that a rank computes
    with; ``routed``: of the same tokens, sent to experts and back.
    """

    whole: int
    mask_bytes: int
    split: int
    routed: int


def kept_of_token(model: Transformer, unit: Unit) -> KeptOfToken:
    """What a block of a model keeps of each token."""
    routed = any(tensor.expert for tensor in unit.tensors)
    of_parts = sum(part.kept_whole for part in unit.parts)
    inputs = _NORMS_AND_PRODUCTS + _POST_NORMS * model.architecture.post_norm
    return KeptOfToken(
        whole=inputs * model.hidden + of_parts,
        mask_bytes=2 * model.hidden * model.architecture.dropout,
        split=sum(part.kept for part in unit.parts),
        routed=2 * model.top_k * model.hidden * routed,
    )
