"""Saved topologies, and machines as the kernel and NVML would show them."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from steptime.topo.files import read_topology
from steptime.topo.topology import Topology

SAVED = Path(__file__).parent / "saved"


def saved(name: str) -> Topology:
    return read_topology(SAVED / name)


def mark(topology: Topology, a: str, b: str) -> str:
    names = [part.name for part in topology.parts]
    return topology.marks[names.index(a)][names.index(b)]


class NVMLError(Exception):
    pass


@dataclass
class Nvml:
    """NVML as pynvml binds it, of GPUs given by address, with NVLinks to addresses or a switch."""

    gpus: dict[str, list[str]]
    levels: dict[tuple[int, int], int] = field(default_factory=dict)
    NVML_NVLINK_MAX_LINKS: int = 36
    NVMLError: type[Exception] = NVMLError

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, n: int) -> int:  # noqa: N802
        return n

    def nvmlDeviceGetPciInfo(self, n: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=("0000" + list(self.gpus)[n]).upper().encode())

    def nvmlDeviceGetName(self, n: int) -> str:  # noqa: N802, ARG002
        return "NVIDIA A100-SXM4-40GB"

    def nvmlDeviceGetCudaComputeCapability(self, n: int) -> tuple[int, int]:  # noqa: N802, ARG002
        return 8, 0

    def _links(self, n: int) -> list[str]:
        return list(self.gpus.values())[n]

    def nvmlDeviceGetNvLinkState(self, n: int, link: int) -> int:  # noqa: N802
        if link >= len(self._links(n)):
            raise NVMLError("Invalid Argument")
        return int(self._links(n)[link] != "off")

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, n: int, link: int) -> int:  # noqa: N802
        return 2 if self._links(n)[link] == "switch" else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, n: int, link: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId="0000" + self._links(n)[link].upper())

    def nvmlDeviceGetTopologyCommonAncestor(self, a: int, b: int) -> int:  # noqa: N802
        return self.levels[min(a, b), max(a, b)]


@dataclass
class Kernel:
    """A file system with the /sys and /proc of a machine."""

    root: Path

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def node(self, number: int, cpus: str) -> None:
        folder = f"sys/devices/system/node/node{number}"
        self.write(f"{folder}/cpulist", cpus)
        self.write(f"{folder}/meminfo", f"Node {number} MemTotal:       65536000 kB")

    def device(self, path: str, numa: int = -1, **facts: str) -> Path:
        """A PCI function below /sys/devices at ``path``, linked from /sys/bus/pci/devices."""
        folder = f"sys/devices/{path}"
        self.write(f"{folder}/numa_node", str(numa))
        for name, text in facts.items():
            self.write(f"{folder}/{name}", text)
        link = self.root / "sys/bus/pci/devices" / Path(path).name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.root / folder)
        return self.root / folder

    def nic(self, kind: str, name: str, device: Path, **facts: str) -> None:
        for path, text in facts.items():
            self.write(f"sys/class/{kind}/{name}/{path.replace('__', '/')}", text)
        folder = self.root / f"sys/class/{kind}/{name}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "device").symlink_to(device)
