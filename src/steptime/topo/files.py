"""Reading a topology that was saved on another machine."""

from pathlib import Path

from steptime.errors import UsageError
from steptime.files import bounded_bytes, reading
from steptime.topo.nccl import parse_nccl
from steptime.topo.smi import looks_like_matrix, parse_matrix
from steptime.topo.topology import Topology

_MOST_BYTES = 16 << 20


def read_topology(path: Path) -> Topology:
    """The topology in a file: the output of ``nvidia-smi topo -m``, or NCCL's topology in XML.

    Raises UsageError where it cannot be read or is neither.
    """
    content = bounded_bytes(path, "topology", _MOST_BYTES)
    with reading(path, "topology"):
        return parse_topology(content.decode(errors="replace"), path.name)


def parse_topology(text: str, name: str) -> Topology:
    """The topology in ``text``, which errors call ``name``; see ``read_topology``."""
    if text.lstrip().startswith("<"):
        return parse_nccl(text, name)
    if looks_like_matrix(text):
        return parse_matrix(text, name)
    raise UsageError(
        f"{name} is neither the output of nvidia-smi topo -m nor a topology of NCCL in XML: save "
        "one of the two, as by nvidia-smi topo -m > FILE"
    )
