"""CosmoFlow: cosmological parameters from a volume, by 3D convolutions."""

from collections.abc import Iterator
from functools import partial

from steptime.workloads.models.family import Family
from steptime.workloads.models.network import Network, unit_of
from steptime.workloads.models.parts import Tensor, Unit, linear


def cosmoflow(
    name: str,
    *,
    side: int = 128,
    inputs: int = 4,
    filters: tuple[int, ...] = (32, 64, 128, 256, 512),
    kernel: int = 3,
    dense: tuple[int, ...] = (128, 64, 4),
) -> Network:
    """Convolutions of ``filters`` outputs, each halving the volume's side, and ``dense`` layers."""
    return Network(
        name=name,
        title="a 3D convolutional network on volumes of dark matter",
        source=(
            "Farrell et al., MLPerf HPC, arXiv 2110.11466; kernels of 3 × 3 × 3 as in spcl's "
            "DNN-cpp-proxies"
        ),
        sample="volume",
        sizes=(
            ("volume", f"{inputs} × {side} × {side} × {side}"),
            ("filters", ", ".join(map(str, filters))),
            ("kernel", f"{kernel} × {kernel} × {kernel}"),
            ("dense", ", ".join(map(str, dense))),
        ),
        units=tuple(_units(side, inputs, filters, kernel, dense)),
    )


def _units(
    side: int, inputs: int, filters: tuple[int, ...], kernel: int, dense: tuple[int, ...]
) -> Iterator[Unit]:
    for number, outputs in enumerate(filters, start=1):
        weight = Tensor(f"conv{number}.weight", (outputs, inputs, *[kernel] * 3), split=False)
        bias = Tensor(f"conv{number}.bias", (outputs,), split=False)
        multiply_adds = weight.size * side**3
        side //= 2  # pooled
        yield unit_of(
            f"conv{number}",
            (weight, bias),
            activations=outputs * side**3,
            multiply_adds=multiply_adds,
        )
        inputs = outputs
    inputs *= side**3
    for number, outputs in enumerate(dense, start=1):
        tensors = linear(f"dense{number}", inputs, outputs, split=False)
        yield unit_of(
            f"dense{number}", tensors, activations=outputs, multiply_adds=inputs * outputs
        )
        inputs = outputs


FAMILY = Family(models={"cosmoflow": partial(cosmoflow, "cosmoflow")})
