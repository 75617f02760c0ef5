"""Which checkpoint a training goes on from: the newest good one, or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from steptime.errors import UsageError
from steptime.train.keeping.folders import checkpoints
from steptime.train.keeping.marker import MARKER, CheckpointInfo, read_marker, read_states, verify

Resume: TypeAlias = Literal["auto"] | Path | None
"""From what a training goes on: a checkpoint, the newest of a run, or that of its own run."""


@dataclass(frozen=True)
class Candidates:
    """Folders of checkpoints, the best first; where ``must``, one of them has to be good."""

    folders: list[Path]
    must: bool


def candidates(resume: Resume, out: Path, steps: int) -> Candidates:
    """What ``--resume`` names; of a run's own folder what leaves something of ``steps`` to train.

    Raises UsageError where it names no checkpoint, and where the run is beyond that step.
    """
    if resume is None:
        return Candidates([], must=False)
    if resume == "auto":
        found = checkpoints(out)
        if beyond := [path for step, path in found if step > steps]:
            raise UsageError(
                f"{beyond[0]} is behind step {steps}, the last of --steps: ask for more"
            )
        return Candidates([path for step, path in found if step < steps], must=False)
    of_run = [path for _, path in checkpoints(resume)]
    if of_run and not (resume / MARKER).exists():
        return Candidates(of_run, must=True)
    return Candidates([resume], must=True)


def likely(given: Candidates) -> tuple[Path, CheckpointInfo] | None:
    """The first that looks whole, without a look at all of its content, and what it says.

    Raises UsageError where there must be one and none is whole.
    """
    refusal: UsageError | None = None
    for folder in given.folders:
        try:
            return folder, _looked_at(folder)
        except UsageError as error:
            refusal = refusal or error
    if given.must and refusal:
        raise refusal
    return None


def agreed(given: Candidates, tell: Callable[[str], None]) -> tuple[Path, CheckpointInfo] | None:
    """The first that is good, as all ranks together find; each verifies some of its files.

    Says in a sentence why one is passed over. Raises UsageError where there must be one and none
    is good.
    """
    import torch.distributed as dist

    ranks = dist.get_world_size()
    listed = [given]
    dist.broadcast_object_list(listed, src=0)
    refusal = None
    for folder in listed[0].folders:
        reason = info = None
        try:
            info = _looked_at(folder)
            verify(folder, info, dist.get_rank(), ranks)
        except UsageError as error:
            reason = str(error)
        reasons: list[str | None] = [None] * ranks
        dist.all_gather_object(reasons, reason)
        if not any(reasons) and info:
            return folder, info
        told = next(filter(None, reasons))
        refusal = refusal or UsageError(told)
        if len(listed[0].folders) > 1 or not given.must:
            tell(f"passed over {folder}: {told}")
    if given.must and refusal:
        raise refusal
    return None


def _looked_at(folder: Path) -> CheckpointInfo:
    info = read_marker(folder)
    read_states(folder, info)
    return info
