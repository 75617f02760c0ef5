"""The marker of a checkpoint: written last, it tells what that is and what its files hold.

A folder without it is no checkpoint. No torch is needed to read and to verify one.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steptime.errors import UsageError
from steptime.files import bounded_bytes, opened, parsed_json, reading, write_json
from steptime.limits import LIMITS, MOST_RANKS, check_limits, check_within
from steptime.train.keeping.pieces import check_cover
from steptime.train.keeping.state_file import StateFile, read_state_file
from steptime.workloads.models import Transformer
from steptime.workloads.precision import PrecisionName

MARKER = "DONE"
MODEL = "model.bin"
MEND = "choose another checkpoint"

_FORMAT = 2
_STATE = re.compile(r"state_\d{5,7}\.safetensors")
_MOST_BYTES = 1 << 28
_PIECE_BYTES = 1 << 22


@dataclass(frozen=True)
class FileSum:
    """What a file held when it was written: its length, and its BLAKE2b of 32 bytes in hex."""

    bytes: int
    blake2b: str


@dataclass(frozen=True, kw_only=True)
class CheckpointInfo:
    """The content of a checkpoint's marker.

    ``step``: the steps done, and so the number of the next one. ``batch``: the number of the batch
    that it trains on, another one where bad ones were passed over. ``loss_scale``: the fields of
    that step's LossScale, None where nothing was scaled. ``files``: what each file holds.
    """

    format: int = _FORMAT
    step: int
    batch: int
    ranks: int
    strategy: str
    precision: PrecisionName
    seed: int
    config: Transformer
    loss_scale: Mapping[str, Any] | None
    files: Mapping[str, FileSum]

    @property
    def state_files(self) -> list[str]:
        """The names of the state files."""
        return [name for name in self.files if _STATE.fullmatch(name)]


def is_file_name(name: str) -> bool:
    """Whether a checkpoint may have a file of that name, beside its marker."""
    return name == MODEL or _STATE.fullmatch(name) is not None


def state_name(rank: int) -> str:
    """The state file of a rank."""
    return f"state_{rank:05}.safetensors"


def write_marker(folder: Path, info: CheckpointInfo) -> None:
    """Make ``folder`` a checkpoint; OSError where that cannot be."""
    write_json(folder / MARKER, asdict(info))


def read_marker(folder: Path) -> CheckpointInfo:
    """What the marker says, once every file that it names is there with its length.

    Raises UsageError where the folder is missing, is no whole checkpoint, or lacks a file.
    """
    marker = folder / MARKER
    if not folder.is_dir():
        raise UsageError(f"there is no checkpoint {folder}: name a folder that holds one")
    if not marker.exists():
        raise UsageError(
            f"{folder} is no complete checkpoint: it has no file {MARKER}, which is written last; "
            "choose another"
        )
    with reading(marker, "checkpoint", MEND):
        info = parsed_json(bounded_bytes(marker, "checkpoint", _MOST_BYTES), CheckpointInfo)
        check_limits(info)
        if info.format != _FORMAT:
            raise ValueError(f"it has format {info.format}, and only {_FORMAT} is known")
        if strange := [name for name in info.files if not is_file_name(name)]:
            raise ValueError(f"it names a file {strange[0]!r} that no checkpoint has")
        check_within("the number of its state files", len(info.state_files), 1, MOST_RANKS)
        check_within("its step", info.step, *LIMITS["steps"])
        check_within("its batch", info.batch, info.step, LIMITS["steps"][1])
    for name, known in info.files.items():
        with opened(folder / name, "state") as file, reading(folder / name, "state", MEND):
            if (size := file.seek(0, 2)) != known.bytes:
                raise ValueError(f"it has {size:,} bytes, and had {known.bytes:,} when written")
    return info


def verify(folder: Path, info: CheckpointInfo, part: int = 0, parts: int = 1) -> None:
    """Raise UsageError where a file of a checkpoint is not what was written.

    ``part``: which of so many ``parts`` of the files is looked at; all ranks together see all.
    """
    for name in sorted(info.files)[part::parts]:
        if summed(folder / name) != info.files[name]:
            raise UsageError(
                f"{folder / name} is damaged: its content is not what was written; {MEND}"
            )


def summed(path: Path) -> FileSum:
    """What a file holds now."""
    digest, size = hashlib.blake2b(digest_size=32), 0
    with opened(path, "state") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return FileSum(size, digest.hexdigest())


def read_states(folder: Path, info: CheckpointInfo) -> list[StateFile]:
    """The state files of a checkpoint, whose pieces cover the model's parameters once each.

    Raises UsageError where one cannot be read, where they do not cover them, or where they are of
    different steps.
    """
    files = [read_state_file(folder / name) for name in info.state_files]
    pieces = [piece for file in files for piece in file.pieces]
    tensors = {t.name: t.shape for unit in info.config.padded().units for t in unit.tensors}
    try:
        check_cover(pieces, tensors)
    except ValueError as error:
        raise UsageError(
            f"the state files in {folder} do not cover the {info.config.padded().parameters:,} "
            f"parameters of the model once each ({error}); {MEND}"
        ) from None
    if len({piece.updates for piece in pieces}) > 1:
        raise UsageError(f"the state files in {folder} are of different steps; {MEND}")
    return files
