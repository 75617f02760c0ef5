"""Marks: the entries of a matrix, with their order, meaning and colour."""

from dataclasses import dataclass

from steptime.errors import UsageError
from steptime.limits import whole_number


@dataclass(frozen=True)
class Mark:
    """One mark. ``advice``: its consequence for training; colours are Okabe and Ito's (2008)."""

    name: str
    meaning: str
    advice: str
    color: str
    text_color: str


MARKS = (
    Mark(
        "NV#",
        "# NVLinks",
        "the place for tensor and expert parallelism: keep the ranks that exchange most within it",
        "#009E73",
        "#111111",
    ),
    Mark(
        "PIX",
        "one PCIe switch",
        "data goes past the CPU. Good for a GPU and its NIC (GPUDirect RDMA); between GPUs enough "
        "for data parallelism that overlaps, slow for tensor parallelism",
        "#56B4E9",
        "#111111",
    ),
    Mark(
        "PXB",
        "several PCIe switches",
        "as PIX, but a switch's link upwards is shared by all devices below it: pair each GPU "
        "with a NIC of its own switch",
        "#0072B2",
        "#ffffff",
    ),
    Mark(
        "PHB",
        "a PCIe host bridge, the CPU",
        "peer to peer goes through the CPU, or is off and goes through its memory: check with "
        "nvidia-smi topo -p2p r; in a VM, whether ACS and IOMMU must stop it",
        "#F0E442",
        "#111111",
    ),
    Mark(
        "NODE",
        "several host bridges of one NUMA node",
        "NCCL treats it as PHB: bind each rank to the cores of this NUMA node",
        "#E69F00",
        "#111111",
    ),
    Mark(
        "SYS",
        "between NUMA nodes, the link between CPUs",
        "all that crosses shares one link, and traffic between GPUs is copied through memory: "
        "keep rings from crossing more than twice and give each socket its own NIC",
        "#D55E00",
        "#111111",
    ),
)


MOST_LINKS = 100
"""An upper bound of the NVLinks of a GPU."""


def is_mark(text: str) -> bool:
    """Whether ``text`` may stand in a matrix off its diagonal."""
    links = text.removeprefix("NV")
    if links != text:
        return 0 < (whole_number(links) or 0) < MOST_LINKS
    return any(mark.name == text for mark in MARKS)


def mark_named(text: str) -> Mark:
    """The mark of a cell; NV12 is an NV#. Raises UsageError for an unknown one."""
    name = "NV#" if text.startswith("NV") else text
    for mark in MARKS:
        if mark.name == name:
            return mark
    raise UsageError(f"there is no mark {text!r}: they are {', '.join(m.name for m in MARKS)}")


def distance(text: str) -> tuple[int, int]:
    """A sort key of cells from near to far: X, NV18, NV12, PIX, …, SYS."""
    if text == "X":
        return -1, 0
    links = -int(text[2:]) if text.startswith("NV") else 0
    return MARKS.index(mark_named(text)), links
