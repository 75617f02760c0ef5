"""GPUs that are here: the kind of device that a driver's name of a GPU means."""

from steptime.cluster.cluster import Device
from steptime.cluster.device_files import device_named

_NAMES = (
    ("A100-SXM4-40GB", "a100-40"),
    ("A100-SXM", "a100-80"),
    ("A100 80GB PCIe", "a100-pcie"),
    ("H100 80GB HBM3", "h100-sxm"),
    ("H100 PCIe", "h100-pcie"),
    ("H100 NVL", "h100-nvl"),
    ("H200", "h200"),
    ("GB300", "gb300"),
    ("GB200", "gb200"),
    ("B200", "b200"),
    ("MI300X", "mi300x"),
    ("MI325X", "mi325x"),
    ("MI355X", "mi355x"),
)
"""Parts of the names that drivers tell, the most particular first, and the devices they mean."""


def gpu_named(name: str) -> Device | None:
    """The device that a driver's name means, as NVIDIA H100 80GB HBM3; None of one not known."""
    return next((device_named(device) for part, device in _NAMES if part in name), None)
