"""A precision that a GPU lacks is refused by what NVML says of it."""

import pytest

from steptime.api.devices import check_gpus, check_precision
from steptime.errors import UsageError
from steptime.topo.gpus import Gpu


def gpus(*kinds: tuple[str, int]) -> list[Gpu]:
    return [Gpu(name, f"{n}", sm, {}, {}) for n, (name, sm) in enumerate(kinds)]


@pytest.mark.parametrize("precision", ["bf16", "bf16-params", "fp8-emulated"])
def test_bf16_is_refused_where_one_gpu_lacks_it(precision: str) -> None:
    here = gpus(("NVIDIA A100", 80), ("Tesla V100", 70))
    with pytest.raises(UsageError, match="GPU 1, Tesla V100, multiplies no bf16") as refused:
        check_gpus(precision, here)
    assert precision in str(refused.value)
    check_gpus(precision, here[:1])


def test_what_every_device_has_is_not() -> None:
    for precision in ("fp32", "fp16", "auto"):
        check_gpus(precision, gpus(("Tesla V100", 70)))
    check_precision("bf16", "gloo")
