"""CosmoFlow: cosmological parameters from a volume, by 3D convolutions."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from steptime.workloads.models.family import Family
from steptime.workloads.models.network import Network, unit_of
from steptime.workloads.models.parts import Tensor, Unit, linear

_POOLED = 2  # places of each dimension that become one behind a convolution


@dataclass(frozen=True)
class Convolution:
    """A 3D convolution of a volume of ``side``³ places with ``inputs`` channels.

    Its outputs have as many places; pooling then halves each dimension.
    """

    name: str
    inputs: int
    outputs: int
    kernel: int
    side: int

    @property
    def reach(self) -> int:
        """How many places away from its own an output depends on, in each direction."""
        return self.kernel // 2

    @property
    def pooled(self) -> int:
        """The side of the volume after pooling."""
        return self.side // _POOLED


@dataclass(frozen=True)
class Dense:
    """A fully connected layer."""

    name: str
    inputs: int
    outputs: int


@dataclass(frozen=True, kw_only=True)
class VolumeNetwork(Network):
    """Convolutions of a volume, then dense layers; these are its units, in this order."""

    convolutions: tuple[Convolution, ...]
    dense: tuple[Dense, ...]


def cosmoflow(
    name: str,
    *,
    side: int = 128,
    inputs: int = 4,
    filters: tuple[int, ...] = (32, 64, 128, 256, 512),
    kernel: int = 3,
    dense: tuple[int, ...] = (128, 64, 4),
) -> VolumeNetwork:
    """Convolutions of ``filters`` outputs, each halving the volume's side, and ``dense`` layers."""
    convolutions = tuple(_convolutions(side, inputs, filters, kernel))
    last = convolutions[-1]
    layers = _dense((last.outputs * last.pooled**3, *dense))
    return VolumeNetwork(
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
        units=(*map(_convolution_unit, convolutions), *map(_dense_unit, layers)),
        convolutions=convolutions,
        dense=layers,
    )


def _convolutions(
    side: int, inputs: int, filters: tuple[int, ...], kernel: int
) -> Iterator[Convolution]:
    for number, outputs in enumerate(filters, start=1):
        layer = Convolution(f"conv{number}", inputs, outputs, kernel, side)
        yield layer
        inputs, side = outputs, layer.pooled


def _dense(widths: tuple[int, ...]) -> tuple[Dense, ...]:
    return tuple(
        Dense(f"dense{number}", before, after)
        for number, (before, after) in enumerate(pairwise(widths), start=1)
    )


def _convolution_unit(layer: Convolution) -> Unit:
    shape = (layer.outputs, layer.inputs, *[layer.kernel] * 3)
    weight = Tensor(f"{layer.name}.weight", shape, split=False)
    bias = Tensor(f"{layer.name}.bias", (layer.outputs,), split=False)
    return unit_of(
        layer.name,
        (weight, bias),
        activations=layer.outputs * layer.pooled**3,
        multiply_adds=weight.size * layer.side**3,
    )


def _dense_unit(layer: Dense) -> Unit:
    return unit_of(
        layer.name,
        linear(layer.name, layer.inputs, layer.outputs, split=False),
        activations=layer.outputs,
        multiply_adds=layer.inputs * layer.outputs,
    )


FAMILY = Family(models={"cosmoflow": partial(cosmoflow, "cosmoflow")})
