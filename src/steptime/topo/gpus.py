"""Reading the GPUs through NVML, which nvidia-ml-py binds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_MARKS = MappingProxyType(
    {10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
)  # nvmlGpuTopologyLevel_t; 0, one board, has no letter of its own
_TO_GPU, _TO_SWITCH = 0, 2  # nvmlIntNvLinkDeviceType_t


@dataclass(frozen=True)
class Gpu:
    """One GPU. ``address``: its PCI function, as /sys names it; ``sm``: such as 90 for 9.0.

    ``nvlinks``: how many NVLinks lead to each other GPU, by number. ``marks``: NVML's name of the
    PCIe path to each other GPU.
    """

    name: str
    address: str
    sm: int
    nvlinks: Mapping[int, int]
    marks: Mapping[int, str]


def read_gpus() -> tuple[Sequence[Gpu], str]:
    """The GPUs of this machine, or where there are none a sentence that says why."""
    try:
        import pynvml
    except ImportError:
        return (), "No GPU is looked for: pip install 'steptime[gpu]' gives NVML's binding."
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return (), f"No GPU: NVML says {str(error).rstrip('.')}."
    try:
        gpus = gpus_of(pynvml)
        return gpus, "" if gpus else "No GPU: NVML finds none here."
    except pynvml.NVMLError as error:
        return (), f"No GPU is shown: NVML fails with {str(error).rstrip('.')}."
    finally:
        pynvml.nvmlShutdown()


def gpus_of(nvml: Any) -> list[Gpu]:
    """The GPUs seen by the module ``nvml``, pynvml or one like it. Raises its NVMLError."""
    count = nvml.nvmlDeviceGetCount()
    handles = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(count)]
    addresses = [_address(nvml.nvmlDeviceGetPciInfo(handle)) for handle in handles]
    links = [_links(nvml, handle) for handle in handles]
    return [
        Gpu(
            name=_text(nvml.nvmlDeviceGetName(handle)),
            address=addresses[n],
            sm=_sm(*nvml.nvmlDeviceGetCudaComputeCapability(handle)),
            nvlinks=_joined(n, addresses, links),
            marks=_marks(nvml, n, handles),
        )
        for n, handle in enumerate(handles)
    ]


def _sm(major: int, minor: int) -> int:
    return 10 * major + minor


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _address(pci: Any) -> str:
    """A PCI address as /sys has it: ``0000:3b:00.0`` for ``00000000:3B:00.0``."""
    domain, _, rest = _text(pci.busId).lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _links(nvml: Any, handle: Any) -> Counter[str]:
    """How many active NVLinks lead to each address; those to switches under an empty one."""
    found: Counter[str] = Counter()
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link) != 1:
                continue
            kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
            remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)
        except nvml.NVMLError:
            continue  # this GPU has no such link
        if kind == _TO_SWITCH:
            found[""] += 1
        elif kind == _TO_GPU:
            found[_address(remote)] += 1
    return found


def _joined(n: int, addresses: Sequence[str], links: Sequence[Counter[str]]) -> dict[int, int]:
    counts = {
        other: links[n][address] or min(links[n][""], links[other][""])
        for other, address in enumerate(addresses)
        if other != n
    }
    return {other: count for other, count in counts.items() if count}


def _marks(nvml: Any, n: int, handles: Sequence[Any]) -> dict[int, str]:
    levels = {
        other: nvml.nvmlDeviceGetTopologyCommonAncestor(handles[n], handle)
        for other, handle in enumerate(handles)
        if other != n
    }
    # Two GPUs of one board share its switch.
    return {other: _MARKS.get(level, "PIX") for other, level in levels.items()}
