"""Expert parallelism: each rank holds some experts, and tokens are sent to the ranks of theirs."""

from collections.abc import Sequence
from dataclasses import replace

from steptime.dtypes import item_bytes
from steptime.errors import UsageError
from steptime.program import Collective
from steptime.workloads.divide import check_divides, divisors, nearest
from steptime.workloads.mesh import EXPERT, TENSOR
from steptime.workloads.models import Part, Transformer
from steptime.workloads.models.parts import size
from steptime.workloads.segment import Cut, Segment
from steptime.workloads.tensor import among_tensor, summed

_COUNTS = "int64"


def mixture(cut: Cut, part: Part) -> Sequence[Segment]:
    """The MLP of a block, whose experts may be spread over the ranks along ``expert``.

    The router sends each token to ``top_k`` experts: an all_to_all before the experts and one after
    them, forward and backward (arXiv 2006.16668, section 3). First ranks tell each other how many
    tokens they have for each expert. Each rank along ``tensor`` sends all its tokens; with sequence
    parallelism it sends its share, and the received tokens are gathered before the experts and
    scattered after them (Megatron-LM, MoEAlltoAllTokenDispatcher).

    All experts are taken to be equally loaded. Live, the routing decides: ``is_routed`` tells the
    calls whose bytes it moves from rank to rank, and along ``expert`` their sum is the same.
    """
    if cut.mesh.expert == 1 or not any(tensor.expert for tensor in part.tensors):
        return summed(cut, (Segment(part=part),))
    router, experts = _router(part), Segment(part=_experts(cut, part))
    counts, dispatch, combine = _counts(cut), _tokens(cut, "dispatch"), _tokens(cut, "combine")
    if not cut.sequence_parallel:
        first, last = summed(cut, (Segment(part=router), experts))
        last = replace(last, enter=(counts, dispatch), leave=(combine, *last.leave))
        return first, replace(last, enter_backward=(combine,), leave_backward=(dispatch,))
    routed = cut.activation_bytes(cut.tokens * cut.top_k)
    gather, scatter = (
        among_tensor(kind, "routed tokens", routed, cut.dtype)
        for kind in ("all_gather", "reduce_scatter")
    )
    # Tensor ranks hold a share of the shared expert: for it too tokens are gathered and summed.
    for_all: tuple[Segment, ...] = (Segment(part=router),)
    if any(tensor.split for tensor in router.tensors):
        for_all = summed(cut, for_all)
    return *for_all, replace(
        experts,
        enter=(counts, dispatch, gather),
        leave=(scatter, combine),
        enter_backward=(combine, gather),
        leave_backward=(scatter, dispatch),
    )


def is_routed(call: Collective) -> bool:
    """Whether the routing of a live step decides how many bytes each rank has in this call."""
    return call.name.endswith(("dispatch", "combine", "routed tokens"))


def _router(part: Part) -> Part:
    tensors = tuple(tensor for tensor in part.tensors if not tensor.expert)
    return replace(
        part, name="router", tensors=tensors, multiplied=size(tensors), multiply_adds=None, moved=0
    )


def _experts(cut: Cut, part: Part) -> Part:
    """The experts of a rank, which process as many tokens as the rank has itself."""
    tensors = tuple(tensor for tensor in part.tensors if tensor.expert)
    others = size(part.tensors) - size(tensors)
    used = None if part.multiply_adds is None else part.multiply_adds - others
    held = size(tensors) // cut.mesh.expert
    return replace(
        part, name="experts", tensors=tensors, multiplied=held, multiply_adds=used, moved_whole=0
    )


def _counts(cut: Cut) -> Collective:
    """How many tokens each rank that sends its own has for each expert, known to all of them."""
    group = cut.mesh.group(*((TENSOR, EXPERT) if cut.sequence_parallel else (EXPERT,)))
    return Collective(
        name="counts",
        kind="all_gather",
        group=group,
        nbytes=cut.mesh.members(*group) * cut.experts * item_bytes(_COUNTS),
        dtype=_COUNTS,
        stream=EXPERT,
    )


def _tokens(cut: Cut, name: str) -> Collective:
    return Collective(
        name=name,
        kind="all_to_all",
        group=(EXPERT,),
        nbytes=cut.activation_bytes(cut.tokens_held * cut.top_k),
        dtype=cut.dtype,
        stream=EXPERT,
    )


def check_experts(cut: Cut, model: Transformer) -> None:
    """Raise UsageError where ranks along ``expert`` cannot share the experts, or the tokens."""
    ranks = cut.mesh.expert
    if ranks == 1:
        return
    if model.experts == 1:
        raise UsageError(f"{model.name} has no experts to spread over {ranks} expert ranks: take 1")
    if ranks > model.experts:
        able = nearest(ranks, divisors(model.experts))
        raise UsageError(
            f"{ranks} expert ranks are more than the {model.experts} experts of {model.name}: the "
            f"most that go are {able}"
        )
    check_divides("expert ranks", ranks, "experts", model.experts, model.name)
    tokens = cut.tokens_held * cut.top_k
    check_divides(
        "expert ranks", ranks, "routed tokens of a rank's micro-batch", tokens, model.name
    )
