"""Axes: the ranks along each axis of a mesh, as one of them sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from steptime.timeline import Recorder
from steptime.workloads.mesh import CONTEXT, TENSOR, Mesh
from steptime.world.communicator import Communicator


@dataclass(frozen=True, eq=False)
class Axes:
    """This rank's place in a mesh and, for each set of axes in use, a communicator of its group.

    ``at``: its coordinate along each axis. ``comms``: by the names of axes, in the mesh's order;
    one of a single rank, which does nothing, is not in it. ``sequence_parallel``: whether ranks
    along ``tensor`` hold their share of the tokens between the halves of a block, not all of them.
    """

    mesh: Mesh
    at: Mapping[str, int]
    comms: Mapping[tuple[str, ...], Communicator] = field(default_factory=dict)
    sequence_parallel: bool = False

    def comm(self, *axes: str) -> Communicator | None:
        """The communicator of the ranks that differ from this one along ``axes`` alone.

        None where this rank is the only one.
        """
        return self.comms.get(tuple(name for name in self.mesh.sizes if name in axes))

    def positions(self, row: int, device: torch.device | None = None) -> Tensor:
        """The positions in a row of the tokens that this rank computes with, int64, ascending.

        Of its 2 · ranks chunks a rank along ``context`` has the n-th from the front and from the
        back, so that all attend to equally many tokens (arXiv 2407.21783, section 3.3.2).
        """
        ranks, rank = self.mesh.sizes[CONTEXT], self.at[CONTEXT]
        if ranks == 1:
            return torch.arange(row, device=device)
        chunks = torch.arange(row, device=device).view(2 * ranks, -1)
        return torch.cat((chunks[rank], chunks[-1 - rank]))

    def positions_held(self, row: int, device: torch.device | None = None) -> Tensor:
        """Those of them that this rank holds between the halves of a block."""
        mine = self.positions(row, device)
        if not self.sequence_parallel:
            return mine
        return mine.view(self.mesh.sizes[TENSOR], -1)[self.at[TENSOR]]


ALONE = Axes(Mesh(), dict.fromkeys(Mesh().sizes, 0))
"""Those of a rank that holds a whole model."""


def form_axes(
    mesh: Mesh,
    groups: list[tuple[str, ...]],
    recorder: Recorder | None = None,
    *,
    sequence_parallel: bool = False,
) -> Axes:
    """The axes of this rank of the world, with a group for each tuple of axes; all ranks call it.

    ``groups``: axes in the mesh's order. Groups of one rank are not made. ``sequence_parallel`` as
    in Axes; of one tensor rank it says nothing.
    """
    rank, numbers = dist.get_rank(), _numbers(mesh)
    names = _slowest_first(mesh)
    place = np.argwhere(numbers == rank)[0].tolist()
    comms: dict[tuple[str, ...], Communicator] = {}
    for axes in groups:
        if mesh.members(*axes) == 1:
            continue
        others = [place for place, name in enumerate(names) if name not in axes]
        along = [place for place, name in enumerate(names) if name in axes]
        rows = numbers.transpose(*others, *along).reshape(-1, mesh.members(*axes)).tolist()
        group, _ = dist.new_subgroups_by_enumeration(rows)
        comms[axes] = Communicator(recorder, group, "+".join(axes))
    shared = sequence_parallel and mesh.tensor > 1
    return Axes(mesh, dict(zip(names, place, strict=True)), comms, shared)


def _numbers(mesh: Mesh) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    """The rank at each place of the mesh: its first axis, which varies fastest, is the last."""
    shape = [mesh.sizes[name] for name in _slowest_first(mesh)]
    return np.arange(mesh.ranks).reshape(shape)


def _slowest_first(mesh: Mesh) -> list[str]:
    return list(mesh.sizes)[::-1]
