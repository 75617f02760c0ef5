"""AdamW over the parts of the flat buffers that this rank owns."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from steptime.strategies import Span
from steptime.train.flat import FlatModel

BETAS = (0.9, 0.95)
EPSILON = 1e-8
_ROW = 4096


@dataclass(frozen=True)
class Segment:
    """A part of one parameter that this rank owns, with its fp32 weights and Adam's moments.

    ``offset``: where it starts in the unpadded parameters: the same for every strategy and world
    size, so that a checkpoint of one serves all.
    """

    offset: int
    decayed: bool
    gradient: Tensor  # (n,), of the reduce dtype: a view into the flat gradients
    compute: Tensor  # (n,), of the compute dtype: a view into the flat parameters
    weight: Tensor  # (n,), fp32; the same memory as compute when that is fp32
    mean: Tensor  # (n,), fp32
    square: Tensor  # (n,), fp32
    step: Tensor  # (), fp32: updates done, a tensor because the fused kernel wants one


class ShardedAdamW:
    """AdamW (arXiv 1711.05101), fused, with state for the owned spans alone.

    ``weights``: the initial fp32 values, shape (layout.size,). ``owned``: for each bucket of the
    layout, the span that this rank updates. Tensors of two dimensions decay, embeddings included;
    biases and norms do not, as in llm.c.
    """

    def __init__(
        self, flat: FlatModel, weights: Tensor, owned: list[Span], weight_decay: float
    ) -> None:
        self.owned = owned
        self._flat = flat
        self._weight_decay = weight_decay
        self.segments = [list(_segments(flat, weights, span)) for span in owned]

    def squared_norm(self) -> Tensor:
        """Sum of squares of the owned gradients, shape (), fp64."""
        total = torch.zeros((), dtype=torch.float64, device=self._flat.gradients.device)
        for span in self.owned:
            total += _sum_of_squares(self._flat.gradients[span.slice])
        return total

    def update(self, bucket: int, learning_rate: float, divisor: Tensor | None) -> None:
        """One step on the owned span of a bucket, with its gradients divided by ``divisor``, ()."""
        for decayed in (True, False):
            segments = [s for s in self.segments[bucket] if s.decayed is decayed]
            if not segments:
                continue
            adamw(
                [segment.weight for segment in segments],
                [segment.gradient.float() for segment in segments],
                [segment.mean for segment in segments],
                [segment.square for segment in segments],
                [],
                [segment.step for segment in segments],
                fused=True,
                grad_scale=divisor,
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=learning_rate,
                weight_decay=self._weight_decay if decayed else 0.0,
                eps=EPSILON,
                maximize=False,
            )
            for segment in segments:
                if segment.compute is not segment.weight:
                    segment.compute.copy_(segment.weight)


def _segments(flat: FlatModel, weights: Tensor, span: Span) -> Iterator[Segment]:
    for slot, part in flat.layout.slots_in(span):
        compute = flat.parameters[part.slice]
        weight = compute if compute.dtype == torch.float32 else weights[part.slice].clone()
        yield Segment(
            offset=slot.offset + part.start - slot.span.start,
            decayed=len(slot.shape) == 2,
            gradient=flat.gradients[part.slice],
            compute=compute,
            weight=weight,
            mean=torch.zeros_like(weight),
            square=torch.zeros_like(weight),
            step=torch.zeros((), device=weight.device),
        )


def _sum_of_squares(vector: Tensor) -> Tensor:
    """Sum of squares of a 1-D tensor, shape (), fp64.

    Rows are summed in fp32 and their sums in fp64: one fp32 sum of all would be wrong by percents
    at 10^8 elements, and by other percents for another cut into shards.
    """
    whole = len(vector) // _ROW * _ROW
    rows = torch.linalg.vector_norm(vector[:whole].view(-1, _ROW), dim=1, dtype=torch.float32)
    rest = torch.linalg.vector_norm(vector[whole:], dtype=torch.float32)
    total: Tensor = rows.double().square().sum() + rest.double().square()
    return total
