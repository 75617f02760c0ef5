"""This machine's topology: NUMA nodes, CPUs and NICs from the kernel, GPUs from NVML."""

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from steptime.topo.gpus import Gpu, read_gpus
from steptime.topo.rates import Processor, between_sockets, nvlink_rate, pcie_rate
from steptime.topo.topology import Kind, Level, Marks, Part, Place, Topology, marks_of
from steptime.units import format_bytes

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")


def this_machine(root: Path = Path("/")) -> Topology:
    """The topology of this host, whose /sys and /proc are below ``root``.

    On a host without a GPU the matrix has its NUMA nodes instead; a note says why there is none.
    """
    gpus, why_none = read_gpus()
    numa = _numa_nodes(root)
    cards = [_gpu_part(root, n, gpu, numa) for n, gpu in enumerate(gpus)]
    nodes = [] if cards else [_numa_part(root, node) for node in numa]
    parts = (*cards, *nodes, *_nics(root, numa))
    cpu, title = _processor(root)
    return Topology(
        origin="NVML and /sys" if cards else "/sys",
        host=f"{platform.node()}: {title}, {_cores(root)} cores, {len(numa)} NUMA "
        f"node{'s' if len(numa) > 1 else ''}",
        parts=parts,
        marks=_marks(parts, gpus),
        between_sockets=between_sockets(cpu),
        intel=cpu.vendor == "GenuineIntel",
        notes=(why_none,) if why_none else (),
    )


def _marks(parts: Sequence[Part], gpus: Sequence[Gpu]) -> Marks:
    """The marks of all pairs: NVML's between GPUs, as nvidia-smi's, the kernel's for all others."""
    links = {(a, b): n for b, gpu in enumerate(gpus) for a, n in gpu.nvlinks.items() if a < b}
    marks = [list(row) for row in marks_of(parts, links)]
    for a, gpu in enumerate(gpus):
        for b, mark in gpu.marks.items():
            if not marks[a][b].startswith("NV"):
                marks[a][b] = marks[b][a] = mark
    return tuple(map(tuple, marks))


def _numa_nodes(root: Path) -> list[int]:
    nodes = (root / "sys/devices/system/node").glob("node[0-9]*")
    return sorted(int(node.name.removeprefix("node")) for node in nodes) or [0]


def _numa_part(root: Path, node: int) -> Part:
    folder = root / f"sys/devices/system/node/node{node}"
    total = re.search(r"MemTotal:\s*(\d+) kB", _read(folder / "meminfo"))
    cpus = _read(folder / "cpulist") or _read(root / "sys/devices/system/cpu/online")
    return Part(
        name=f"NUMA{node}",
        kind=Kind.CPU,
        title=f"{format_bytes(int(total[1]) * 1024)} of memory" if total else "",
        numa=str(node),
        cpus=cpus,
        above=(Place(Level.NUMA, f"NUMA {node}"),),
    )


def _gpu_part(root: Path, number: int, gpu: Gpu, numa: Sequence[int]) -> Part:
    device = (root / "sys/bus/pci/devices" / gpu.address).resolve()
    part = Part(name=f"GPU{number}", kind=Kind.GPU, title=gpu.name, nvlink=nvlink_rate(gpu.sm))
    return _placed(part, device, numa)


def _placed(part: Part, device: Path, numa: Sequence[int]) -> Part:
    """The part with its place in the PCI tree and NUMA node, read from /sys/devices."""
    function = _pci_function(device)
    node = _numa_of(function, numa)
    return replace(
        part,
        numa="" if node is None else str(node),
        cpus=_read(function / "local_cpulist"),
        above=_above(function, node),
        rate=_link_rate(function),
    )


def _pci_function(device: Path) -> Path:
    """The PCI function that a device is, or belongs to, as a virtio device does."""
    for folder in (device, *device.parents):
        if _ADDRESS.fullmatch(folder.name):
            return folder
    return device


def _numa_of(function: Path, numa: Sequence[int]) -> int | None:
    text = _read(function / "numa_node") or "-1"
    if int(text) >= 0:
        return int(text)
    return numa[0] if len(numa) == 1 else None


def _above(function: Path, node: int | None) -> tuple[Place, ...]:
    """The places above a device: every second bridge is the upstream port of a switch."""
    places = [] if node is None else [Place(Level.NUMA, f"NUMA {node}")]
    if bridge := next((part for part in function.parts if _ROOT.fullmatch(part)), None):
        places.append(Place(Level.BRIDGE, f"host bridge {bridge.removeprefix('pci')}"))
    bridges = [folder for folder in function.parents if _ADDRESS.fullmatch(folder.name)][::-1]
    places += [
        Place(Level.SWITCH, f"switch {folder.name}", _link_rate(folder)) for folder in bridges[1::2]
    ]
    if len(bridges) == 1:
        places.append(Place(Level.PORT, f"port {bridges[0].name}", _link_rate(bridges[0])))
    return tuple(places)


def _link_rate(folder: Path) -> float | None:
    speed, width = _read(folder / "max_link_speed"), _read(folder / "max_link_width")
    return pcie_rate(speed, int(width)) if speed and width.isdecimal() and int(width) else None


def _nics(root: Path, numa: Sequence[int]) -> list[Part]:
    """InfiniBand and RoCE devices, then all other Ethernet ports."""
    found: dict[Path, tuple[str, float | None]] = {}
    for device in sorted((root / "sys/class/infiniband").glob("*/device")):
        found[device.resolve()] = device.parent.name, _infiniband_rate(device.parent)
    for device in sorted((root / "sys/class/net").glob("*/device")):
        found.setdefault(device.resolve(), (device.parent.name, _ethernet_rate(device.parent)))
    return [
        _placed(Part(name=f"NIC{n}", kind=Kind.NIC, title=title, network=rate), device, numa)
        for n, (device, (title, rate)) in enumerate(found.items())
    ]


def _infiniband_rate(folder: Path) -> float | None:
    match = re.match(r"([\d.]+) Gb/sec", _read(folder / "ports/1/rate"))
    return float(match[1]) * 1e9 / 8 if match else None


def _ethernet_rate(folder: Path) -> float | None:
    megabits = _read(folder / "speed")
    return int(megabits) * 1e6 / 8 if megabits.isdecimal() and int(megabits) else None


def _processor(root: Path) -> tuple[Processor, str]:
    lines = [line.partition(":") for line in _read(root / "proc/cpuinfo").splitlines()]
    fields = {key.strip(): value.strip() for key, colon, value in lines if colon}
    family, model = (fields.get(key, "") for key in ("cpu family", "model"))
    cpu = Processor(
        arch=platform.machine(),
        vendor=fields.get("vendor_id", ""),
        family=int(family) if family.isdecimal() else 0,
        model=int(model) if model.isdecimal() else 0,
    )
    return cpu, fields.get("model name", "") or platform.machine()


def _cores(root: Path) -> int:
    cpus = _read(root / "sys/devices/system/cpu/online")
    spans = [span.partition("-") for span in cpus.split(",") if span]
    return sum(int(b or a) - int(a) + 1 for a, _, b in spans) or os.cpu_count() or 1


def _read(path: Path) -> str:
    """The content of a kernel file; empty where it is missing or cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
