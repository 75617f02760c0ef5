"""Parties: which ranks make a call together, told by its name, where ranks share a model."""

import numpy as np

from steptime.arrays import Longs
from steptime.timeline.by_axis import axis_in_name
from steptime.timeline.waits import Party, PartyOf
from steptime.workloads.mesh import Mesh


def parties(mesh: Mesh) -> PartyOf:
    """Who takes part in a call that a ``Communicator`` of the mesh has recorded under a name.

    A collective along some axes is that of the ranks that differ along these alone, and a message
    that of its two ends: ``send pipeline 1`` of stage 0 and ``receive pipeline 0`` of stage 1.
    """
    sizes = list(mesh.sizes.values())
    ranks = np.arange(mesh.ranks)
    at = dict(zip(mesh.sizes, np.unravel_index(ranks, sizes, order="F"), strict=True))

    def group(axes: list[str]) -> Longs:
        """The least rank of each rank's group along some axes, shape (ranks,)."""
        strides = np.cumprod([1, *sizes[:-1]])
        own = sum((at[n] * s for n, s in zip(at, strides, strict=True) if n in axes), 0 * ranks)
        return np.asarray(ranks - own)

    def party(name: str) -> Party:
        kind, _, where = name.partition(" ")
        axis = axis_in_name(name)
        own = group(axis.split("+") if axis else list(mesh.sizes))
        if kind not in ("send", "receive"):
            return Party(name, own)
        peer, many = int(where.split()[-1]), mesh.sizes[axis]
        ends = (at[axis], peer) if kind == "send" else (peer, at[axis])
        return Party(f"message {axis}", (own * many + ends[0]) * many + ends[1])

    return party
