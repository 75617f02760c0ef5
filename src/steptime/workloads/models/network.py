"""Models without rows of tokens, whose samples, images or volumes, are all of one size."""

from collections.abc import Iterable
from dataclasses import dataclass

from steptime.errors import UsageError
from steptime.workloads.models.parts import Part, Tensor, Unit, size


@dataclass(frozen=True, kw_only=True)
class Network:
    """A model that computes the same for each ``sample``: an image, a volume, a click.

    ``sizes``: the dimensions that define it, by name.
    """

    name: str
    title: str
    source: str
    sample: str
    sizes: tuple[tuple[str, int | str], ...]
    units: tuple[Unit, ...]

    context = 1

    @property
    def dimensions(self) -> dict[str, int | str]:
        """The dimensions that define it, by name."""
        return dict(self.sizes)

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(unit.parameters for unit in self.units)

    @property
    def active_parameters(self) -> int:
        """Elements that a sample uses: all, except the other rows of a table."""
        return self.parameters

    def flops_per_token(self, row: int | None = None) -> float:
        """FLOP of forward and backward for one sample; ``row`` is 1 or None, as there are no rows.

        Backward is counted as twice the forward, although the first layer needs no gradient of its
        input.
        """
        return 3 * sum(unit.forward_flops(self.row(row)) for unit in self.units)

    def padded(self) -> "Network":
        """The same model: there is no vocabulary to round up."""
        return self

    def row(self, context: int | None) -> int:
        """Always 1: a sample is a row of one token.

        Raises UsageError when more are asked for.
        """
        if context not in (None, 1):
            raise UsageError(
                f"the context is {context} and {self.name} computes with one {self.sample} at a "
                "time, not rows of tokens: leave the context out"
            )
        return 1


def unit_of(
    name: str,
    tensors: Iterable[Tensor],
    *,
    activations: int,
    multiply_adds: int | None = None,
    multiplied: int | None = None,
) -> Unit:
    """A unit of one part; ``multiplied`` and ``multiply_adds`` as in Part.

    By default all tensors are multiplied with, once.
    """
    held = tuple(tensors)
    part = Part(
        name=name,
        tensors=held,
        multiplied=size(held) if multiplied is None else multiplied,
        multiply_adds=multiply_adds,
    )
    return Unit(name, (part,), activations)
