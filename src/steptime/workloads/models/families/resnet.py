"""ResNet with bottleneck blocks, whose 3 × 3 convolution has the stride (v1.5, as torchvision)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from steptime.workloads.models.family import Family
from steptime.workloads.models.network import Network, unit_of
from steptime.workloads.models.parts import Tensor, Unit, linear, norm

_WIDTHS = (64, 128, 256, 512)  # of the bottlenecks of each stage
_EXPANSION = 4  # a block is that much wider than its bottleneck
_CLASSES = 1000


def resnet(name: str, *, blocks: tuple[int, int, int, int], side: int = 224) -> Network:
    """The network with that many ``blocks`` in its four stages, for images of side × side."""
    return Network(
        name=name,
        title="a convolutional network of residual bottleneck blocks",
        source="He et al., Deep Residual Learning for Image Recognition, arXiv 1512.03385, table 1",
        sample="image",
        sizes=(
            ("blocks", ", ".join(map(str, blocks))),
            ("widths", ", ".join(str(_EXPANSION * width) for width in _WIDTHS)),
            ("image", f"3 × {side} × {side}"),
            ("classes", _CLASSES),
        ),
        units=tuple(_units(blocks, side)),
    )


@dataclass(frozen=True)
class _Convolution:
    """A convolution with an output of ``side`` × ``side``, and its BatchNorm."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    side: int

    @property
    def weight(self) -> Tensor:
        shape = (self.outputs, self.inputs, self.kernel, self.kernel)
        return Tensor(f"{self.name}.weight", shape, split=False)

    @property
    def multiply_adds(self) -> int:
        return self.weight.size * self.side**2


def _units(blocks: tuple[int, ...], side: int) -> Iterator[Unit]:
    stem = _Convolution("stem", 3, _WIDTHS[0], 7, side // 2)
    side //= 4  # the stem strides once, and its pooling once more
    yield _unit("stem", [stem], _WIDTHS[0] * side**2)
    inputs = _WIDTHS[0]
    for stage, (count, width) in enumerate(zip(blocks, _WIDTHS, strict=True), start=1):
        for block in range(count):
            before = side
            if stage > 1 and block == 0:
                side //= 2
            yield _bottleneck(f"layer{stage}.{block}", inputs, width, before, side)
            inputs = _EXPANSION * width
    tensors = linear("head", inputs, _CLASSES, split=False)
    yield unit_of("head", tensors, activations=_CLASSES, multiply_adds=inputs * _CLASSES)


def _bottleneck(name: str, inputs: int, width: int, before: int, after: int) -> Unit:
    """One bottleneck block, from a map of side ``before`` to one of side ``after``."""
    outputs = _EXPANSION * width
    convolutions = [
        _Convolution(f"{name}.conv1", inputs, width, 1, before),
        _Convolution(f"{name}.conv2", width, width, 3, after),
        _Convolution(f"{name}.conv3", width, outputs, 1, after),
    ]
    if inputs != outputs:
        convolutions.append(_Convolution(f"{name}.shortcut", inputs, outputs, 1, after))
    return _unit(name, convolutions, outputs * after**2)


def _unit(name: str, convolutions: list[_Convolution], activations: int) -> Unit:
    """A unit; BatchNorm, activations and pooling count no FLOP, as in published figures."""
    tensors = [
        tensor for c in convolutions for tensor in (c.weight, *norm(f"{c.name}.bn", c.outputs))
    ]
    multiply_adds = sum(c.multiply_adds for c in convolutions)
    return unit_of(name, tensors, activations=activations, multiply_adds=multiply_adds)


FAMILY = Family(
    models={
        "resnet50": partial(resnet, "resnet50", blocks=(3, 4, 6, 3)),
        "resnet152": partial(resnet, "resnet152", blocks=(3, 8, 36, 3)),
    },
)
