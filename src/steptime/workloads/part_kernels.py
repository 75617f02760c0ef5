"""The kernels that a part of a model launches for a micro-batch, from its tensors.

Matrices that multiply the same tokens make one kernel, as queries, keys and values do, and so do
the experts of a rank. What a part moves besides is cut into few kernels, as compilers fuse it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steptime.program import Kernel
from steptime.workloads.models import Part
from steptime.workloads.models.parts import Tensor, size
from steptime.workloads.pipelines import Kind
from steptime.workloads.precision import element_bytes

_STREAMS = 3  # kernels of what is no product: a norm, what follows the first matrix, a sum
_MORE = 2.0  # what backward moves of what forward does: it reads what came in and the gradient


@dataclass(frozen=True, kw_only=True)
class Share:
    """What a rank computes of a micro-batch.

    ``rows`` rows of ``row`` tokens, of which it has ``tokens`` and, between the halves of a block,
    holds ``held``; a share of matrices that ``tensor`` ranks divide.
    """

    tokens: float
    held: float
    rows: int
    row: int
    tensor: int
    dtype: str


@dataclass(frozen=True)
class _Matrix:
    """A matrix by which ``tokens`` tokens are multiplied, ``batch`` of that size in one kernel."""

    tokens: float
    outputs: float
    inputs: float
    batch: float = 1.0

    def product(self, kind: str) -> Kernel:
        """Forward, or the gradient of its input or of its weights."""
        m, n, k = {
            "forward": (self.tokens, self.outputs, self.inputs),
            "input": (self.tokens, self.inputs, self.outputs),
            "weight": (self.outputs, self.inputs, self.tokens),
        }[kind]
        return Kernel("product", (m, n, k, self.batch))


def part_kernels(
    part: Part, share: Share, kind: Kind, *, again: bool = False
) -> tuple[Kernel, ...]:
    """The kernels of a pass through a part; none where its tensors do not tell its products.

    ``again``: whether backward computes attention's scores again.
    """
    matrices = _matrices(part, share)
    if matrices is None:
        return ()
    wanted = {
        "forward": ("forward",),
        "backward": ("input", "weight"),
        "backward input": ("input",),
        "backward weight": ("weight",),
    }[kind]
    found = [matrix.product(one) for one in wanted for matrix in matrices]
    if kind == "backward weight":
        return tuple(found)
    if part.attending and part.heads:
        if again and kind != "forward":
            found.append(_attention(part, share, backward=False))
        found.append(_attention(part, share, backward=kind != "forward"))
    width = element_bytes(share.dtype)
    moved = width * (part.moved_whole * share.held + part.moved * share.tokens / share.tensor)
    if moved:
        more = 1.0 if kind == "forward" else _MORE
        found.append(Kernel("stream", (moved * more / _STREAMS,), _STREAMS))
    return tuple(found)


def _attention(part: Part, share: Share, *, backward: bool) -> Kernel:
    queries = share.tokens / share.rows
    keys = min(share.row, part.window) if part.window else share.row
    heads = part.heads / share.tensor
    sizes = (share.rows, heads, queries, keys, part.attending / (4 * part.heads))
    return Kernel("attention", (*sizes, float(part.causal), float(backward)))


def _matrices(part: Part, share: Share) -> list[_Matrix] | None:
    """The products of a part, or None where it multiplies otherwise than each tensor once."""
    if not part.multiplied:
        return []
    shared = [one for one in part.tensors if not one.expert]
    experts = [one for one in part.tensors if one.expert]
    every = [*shared, *part.borrowed]
    if any(len(one.shape) > 2 for one in every):
        return None
    if not experts:
        if part.multiply_adds is not None or size(every) != part.multiplied:
            return None
        return list(_of_all(every, share))
    if part.multiply_adds is None:
        return None
    used = (part.multiply_adds - size(every)) / size(experts)  # of the experts, by a token
    here = (part.multiplied - size(every)) / size(experts)  # on this rank
    return [*_of_all(every, share), *_of_experts(experts, share, used, here)]


def _of_all(tensors: Sequence[Tensor], share: Share) -> Iterator[_Matrix]:
    """One for all neighbours that multiply the same tokens."""
    outputs, before = 0.0, None
    for one in (tensor for tensor in tensors if len(tensor.shape) == 2):
        key = (one.shape[1], one.split, _is_last(one))
        if before not in (None, key):
            yield _cut(outputs, before, share)
            outputs = 0.0
        outputs, before = outputs + one.shape[0], key
    if before is not None:
        yield _cut(outputs, before, share)


def _cut(outputs: float, key: tuple[int, bool, bool], share: Share) -> _Matrix:
    inputs, split, last = key
    if not split:
        return _Matrix(share.held, outputs, inputs)
    if last:
        return _Matrix(share.tokens, outputs, inputs / share.tensor)
    return _Matrix(share.tokens, outputs / share.tensor, inputs)


def _of_experts(
    tensors: Sequence[Tensor], share: Share, used: float, here: float
) -> Iterator[_Matrix]:
    """Each matrix of all experts of a rank in one kernel, tokens divided evenly among them."""
    names = {one.name.split("experts.")[-1].split(".")[0] for one in tensors}
    first = tensors[: len(tensors) // len(names)]
    held = len(names) * here
    tokens = share.tokens * used * len(names) / held
    for one in _of_all(first, share):
        yield _Matrix(tokens, one.outputs, one.inputs, held)


def _is_last(tensor: Tensor) -> bool:
    """Whether tensor-parallel ranks divide the side that it is multiplied along."""
    return ".proj." in tensor.name
