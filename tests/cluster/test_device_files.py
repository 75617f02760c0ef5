"""Files of devices, and what a cluster's file may say of its own."""

import re
from pathlib import Path

import pytest

from steptime.cluster import Cluster, cluster_named, device_named, device_names, parse_cluster
from steptime.cluster import device_files as module
from steptime.cluster.kernel_parameters import MEANINGS
from steptime.errors import UsageError

FILES = Path(module.__file__).parent / "devices"


def one_device(device: str) -> Cluster:
    return parse_cluster(f"[device]\n{device}\n", "own.toml")


@pytest.mark.parametrize("name", device_names())
def test_every_device_has_all_parameters_and_says_where_from(name: str) -> None:
    device = device_named(name)
    kernels = device.kernels
    assert kernels is not None
    assert device.watts and 150 <= device.watts <= 1500
    assert 10e9 <= device.memory <= 320e9
    assert {key.rpartition(".")[2] for key in kernels.origins} == set(MEANINGS)
    assert all(origin.source for origin in kernels.origins.values())
    for share in (kernels.reach, kernels.rate, kernels.epilogue, kernels.unaligned):
        assert 0 < share <= 1
    assert kernels.sustained.keys() <= device.flops.keys()
    assert all(0.4 < share <= 1 for share in kernels.sustained.values())
    assert kernels.feed > 2 * device.memory_bandwidth
    for rates in kernels.attention.values():
        assert 0.2 < rates.backward <= rates.forward < 1


def test_peaks_are_dense() -> None:
    """Sparse ones are twice these, and often quoted."""
    peaks = {"a100-80": 312, "h100-sxm": 989, "b200": 2250, "gb200": 2500, "mi300x": 1307}
    for name, peak in peaks.items():
        assert device_named(name).flops["bf16"] == pytest.approx(peak * 1e12, rel=1e-3)


def test_a_parameter_may_be_that_of_another_device() -> None:
    h200, h100 = device_named("h200").kernels, device_named("h100-sxm").kernels
    assert h200 is not None and h100 is not None
    assert h200.rate == h100.rate
    assert h200.attention == h100.attention
    assert h200.origins["rate"].basis == "assumed"
    assert h200.origins["flash2.forward"].source == "as H100 SXM 80GB"


def test_a_cluster_names_a_device_and_changes_it() -> None:
    whole = one_device('preset = "h100-sxm"').device
    assert whole == device_named("h100-sxm") == cluster_named("dgx-h100").device
    less = one_device('preset = "h100-sxm"\nmemory = "40GB"\nname = "half"').device
    assert (less.memory, less.name) == (40e9, "half")
    assert less.kernels == whole.kernels


def test_an_efficiency_of_ones_own_puts_the_roofline_in_the_kernels_place() -> None:
    device = one_device('preset = "h100-sxm"\nefficiency = 0.5').device
    assert (device.efficiency, device.kernels) == (0.5, None)


KERNELS = (FILES / "a100-80.toml").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('preset = "h100"', r"device.preset is 'h100', which is no device: .*h100-"),
        ('preset = "h100-sxm"\nmemry = "4GB"', "device.memry is not known here: .*'memory'"),
        (KERNELS.replace("reach =", "reech ="), "kernels.reach.value? is missing|kernels.reach"),
        (re.sub(r"units = \{.*", "units = { value = 1.5 }", KERNELS), "kernels.units.basis"),
        (re.sub(r"rate = \{.*", 'rate = { as = "a10" }', KERNELS), "rate.as is 'a10'.*a100-"),
        (KERNELS.split("[kernels.attention")[0], "kernels.attention names no kernel"),
        (KERNELS + '[kernels.attention.flash3]\nas = "a100-40"', "which has no flash3: .*flash2"),
    ],
)
def test_a_wrong_device_is_refused(text: str, said: str) -> None:
    nested = text.replace("[kernels", "[device.kernels")
    with pytest.raises(UsageError, match=said):
        one_device(nested)


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(UsageError, match="no device is called 'h1000'"):
        device_named("h1000")
