"""Reading NCCL's topology file, as NCCL_TOPO_DUMP_FILE writes it."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from xml.etree.ElementTree import Element

from steptime.errors import UsageError
from steptime.files import parsed_xml, reading
from steptime.limits import check_within
from steptime.topo.marks import MOST_LINKS
from steptime.topo.rates import Processor, between_sockets, nvlink_rate, pcie_rate
from steptime.topo.topology import MOST_PARTS, Kind, Level, Part, Place, Topology, marks_of

_SWITCH, _NVSWITCH = "0x0604", "0x068000"
_MOST_LANES = 64
_MOST_DIGITS = 1 << 12
_MEND = "let NCCL write it again with NCCL_TOPO_DUMP_FILE"

Links = dict[str, int]
"""How many NVLinks of a GPU lead to each target, by its bus id."""


def parse_nccl(text: str, name: str) -> Topology:
    """The topology that ``text``, a topology file of NCCL, describes.

    NCCL's file has no host bridges: a path within one CPU is PHB to it. Raises UsageError when the
    text is no such file or holds no GPU.
    """
    with reading(name, "topology", _MEND):
        return _topology(_system(text, name), name)


def _system(text: str, name: str) -> Element:
    """The root of a topology file."""
    system = parsed_xml(text)
    if system.tag != "system":
        raise UsageError(
            f"{name} is XML, but its root is {system.tag!r}: NCCL's topology has 'system', as "
            "NCCL_TOPO_DUMP_FILE writes it"
        )
    return system


def _topology(system: Element, name: str) -> Topology:
    """The topology in the element ``system``. Raises ValueError or TypeError for a bad number."""
    cpus = system.findall("cpu")
    leaves = [leaf for cpu in cpus for leaf in _leaves(cpu)]
    gpus = sorted((leaf for leaf in leaves if leaf[0].kind is Kind.GPU), key=_number)
    nics = sorted((leaf for leaf in leaves if leaf[0].kind is Kind.NIC), key=_number)
    if not gpus:
        raise UsageError(f"{name} holds no GPU: let NCCL write it again with NCCL_TOPO_DUMP_FILE")
    check_within("the number of GPUs and NICs", len(leaves), 1, MOST_PARTS)
    parts = tuple(part for part, *_ in [*gpus, *nics])
    processor = _processor(cpus[0])
    return Topology(
        origin="NCCL's topology file",
        host=name,
        parts=parts,
        marks=marks_of(parts, _nvlinks([(bus, links) for _, bus, links in gpus])),
        between_sockets=between_sockets(processor),
        intel=processor.vendor == "GenuineIntel",
    )


def _number(leaf: tuple[Part, str, Links]) -> int:
    return int(leaf[0].name[3:])


def _processor(cpu: Element) -> Processor:
    family = int(cpu.get("familyid", "0"))
    return Processor(
        arch=cpu.get("arch", ""),
        vendor=cpu.get("vendor", ""),
        # NCCL writes the extended family in the upper four bits, the kernel adds it.
        family=(family & 15) + (family >> 4),
        model=int(cpu.get("modelid", "0")),
    )


def _leaves(cpu: Element) -> Iterator[tuple[Part, str, Links]]:
    """The GPUs and NICs below a CPU, their bus ids and NVLinks."""
    numa = cpu.get("numaid", "")
    root = Place(Level.NUMA, f"NUMA {numa}")
    common = Part(name="", kind=Kind.GPU, numa=numa, cpus=_cpu_list(cpu.get("affinity", "")))
    bridge = Place(Level.BRIDGE, f"CPU {numa}")
    for pci in cpu.findall("pci"):
        yield from _below(pci, replace(common, above=(root, bridge)))
    for nic in cpu.findall("nic"):
        yield from _nets(nic, replace(common, above=(root, bridge)), "")


def _below(pci: Element, part: Part) -> Iterator[tuple[Part, str, Links]]:
    bus = pci.get("busid", "").lower()
    width = int(pci.get("link_width", "16") or 16)
    check_within("a link_width", width, 0, _MOST_LANES)
    rate = pcie_rate(pci.get("link_speed", ""), width)
    if pci.get("class", "").startswith(_SWITCH):
        part = replace(part, above=(*part.above, Place(Level.SWITCH, f"switch {bus}", rate)))
    for child in pci.findall("pci"):
        yield from _below(child, part)
    for gpu in pci.findall("gpu"):
        sm = int(gpu.get("sm", "0"))
        found = replace(
            part,
            name=f"GPU{int(gpu.get('dev', ''))}",
            title=f"sm_{sm}",
            rate=rate,
            nvlink=nvlink_rate(sm),
        )
        yield found, bus, _links(gpu)
    for nic in pci.findall("nic"):
        port = Place(Level.PORT, f"port {bus}", rate)
        yield from _nets(nic, replace(part, above=(*part.above, port)), bus)


def _nets(nic: Element, part: Part, bus: str) -> Iterator[tuple[Part, str, Links]]:
    for net in nic.findall("net"):
        speed = int(net.get("speed", "-1"))
        network = (speed if speed > 0 else 10_000) * 1e6 / 8
        name, title = f"NIC{int(net.get('dev', ''))}", net.get("name", "")
        yield replace(part, kind=Kind.NIC, name=name, title=title, network=network), bus, {}


def _links(gpu: Element) -> Links:
    """NVLinks by target; those to NVSwitches together, since each GPU reaches all through them."""
    links: Links = {}
    for link in gpu.findall("nvlink"):
        switch = link.get("tclass", "") == _NVSWITCH
        target = _NVSWITCH if switch else link.get("target", "").lower()
        links[target] = links.get(target, 0) + int(link.get("count", "1"))
        check_within("the NVLinks of a GPU to another", links[target], 1, MOST_LINKS - 1)
    return links


def _nvlinks(gpus: list[tuple[str, Links]]) -> dict[tuple[int, int], int]:
    found = {}
    for (a, (_, own)), (b, (bus, others)) in combinations(enumerate(gpus), 2):
        direct = own.get(bus, 0)
        switched = min(own.get(_NVSWITCH, 0), others.get(_NVSWITCH, 0))
        if direct or switched:
            found[a, b] = direct or switched
    return found


def _cpu_list(mask: str) -> str:
    """The CPUs of a kernel's mask: ``16-39`` for ``000000ff,ffff0000``."""
    check_within("the digits of a CPU mask", len(mask), 0, _MOST_DIGITS)
    bits = int(mask.replace(",", "") or "0", 16)
    cpus = [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]
    firsts = [cpu for cpu in cpus if cpu == 0 or not bits >> (cpu - 1) & 1]
    lasts = [cpu for cpu in cpus if not bits >> (cpu + 1) & 1]
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in zip(firsts, lasts, strict=True))
