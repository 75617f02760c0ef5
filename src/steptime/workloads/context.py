"""Context parallelism: ranks that each hold a share of every row's tokens."""

from collections.abc import Sequence
from dataclasses import replace

from steptime.errors import UsageError
from steptime.program import Collective
from steptime.workloads.divide import divisors, nearest
from steptime.workloads.mesh import CONTEXT
from steptime.workloads.models import Part
from steptime.workloads.models.parts import size
from steptime.workloads.precision import element_bytes
from steptime.workloads.segment import Cut, Segment


def attention(cut: Cut, part: Part) -> Sequence[Segment]:
    """Attention in blocks, where ranks along ``context`` may share each row's tokens.

    Ranks gather each other's keys and values before they attend, and reduce-scatter their gradients
    afterwards (Grattafiori et al., arXiv 2407.21783, section 3.3.2): small ones, where heads share
    keys. A rank has the n-th chunk of a row from the front and from the back, so that all attend to
    equally many tokens.
    """
    if cut.mesh.context == 1:
        return (Segment(part=part),)
    into = tuple(tensor for tensor in part.tensors if ".proj." not in tensor.name)
    out = tuple(tensor for tensor in part.tensors if ".proj." in tensor.name)
    products = replace(part, name="qkv", tensors=into, multiplied=size(into), attending=0)
    attending = replace(
        part, tensors=out, multiplied=size(out), duplicated=0, moved=0, moved_whole=0
    )
    return Segment(part=products), Segment(
        part=attending,
        enter=(_keys_and_values(cut, "all_gather"),),
        leave_backward=(_keys_and_values(cut, "reduce_scatter"),),
    )


def keys_bytes(cut: Cut) -> int:
    """Bytes of the keys and values of whole rows, for a rank's heads."""
    return cut.rows * cut.row * (cut.kv_width // cut.mesh.tensor) * element_bytes(cut.dtype)


def _keys_and_values(cut: Cut, kind: str) -> Collective:
    return Collective(
        name="keys and values",
        kind=kind,
        group=(CONTEXT,),
        nbytes=keys_bytes(cut),
        dtype=cut.dtype,
        stream=CONTEXT,
    )


def check_context(context: int, row: int, model: str) -> None:
    """Raise UsageError where a row does not make two chunks for each rank along ``context``."""
    if context > 1 and row % (2 * context):
        able = [1, *divisors(row // 2)] if not row % 2 else [1]
        raise UsageError(
            f"{context} context ranks take two chunks each of a row, and the {row:,} tokens of a "
            f"row of {model} do not divide so: the nearest that do are {nearest(context, able)}"
        )
