"""Reading a topology that was saved on another machine."""

from pathlib import Path

from steptime.errors import UsageError
from steptime.topo.nccl import parse_nccl
from steptime.topo.smi import looks_like_matrix, parse_matrix
from steptime.topo.topology import Topology


def read_topology(path: Path) -> Topology:
    """What a file holds: the output of ``nvidia-smi topo -m``, or NCCL's topology in XML.

    Raises UsageError where it cannot be read or is neither.
    """
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name a file that exists") from None
    return parse_topology(text, path.name)


def parse_topology(text: str, name: str) -> Topology:
    """The topology that ``text``, called ``name``, holds; see ``read_topology``."""
    if text.lstrip().startswith("<"):
        return parse_nccl(text, name)
    if looks_like_matrix(text):
        return parse_matrix(text, name)
    raise UsageError(
        f"{name} is neither the output of nvidia-smi topo -m nor a topology of NCCL in XML: save "
        "one of the two, as by nvidia-smi topo -m > FILE"
    )
