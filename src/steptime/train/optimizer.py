"""AdamW over the parts of the flat buffers that this rank owns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from steptime.strategies import Span
from steptime.train.flat import FlatModel
from steptime.train.precision import Precision
from steptime.train.rounding import stochastic

BETAS = (0.9, 0.95)
EPSILON = 1e-8
_ROW = 4096
_PIECE = 1 << 18  # elements that are updated in fp32 at a time, where they are kept in less


@dataclass(frozen=True)
class Segment:
    """A part of one parameter that this rank owns, with the weights and moments that Adam updates.

    ``offset``: where it starts in the unpadded parameters: the same for every strategy and world
    size, so that a checkpoint of one serves all, and that weights are rounded alike by chance on
    all ranks that update them.
    """

    offset: int
    decayed: bool
    gradient: Tensor  # (n,), of the reduce dtype: a view into the flat gradients
    compute: Tensor  # (n,), of the compute dtype: a view into the flat parameters
    weight: Tensor  # (n,), of the state's dtype; the same memory as compute when that is its own
    mean: Tensor  # (n,), of the state's dtype
    square: Tensor  # (n,), of the state's dtype
    step: Tensor  # (), fp32: updates done, a tensor because the fused kernel wants one


class ShardedAdamW:
    """AdamW (arXiv 1711.05101), fused, with state for the owned spans alone.

    ``weights``: the initial fp32 values, shape (layout.size,). ``owned``: for each bucket of the
    layout, the span that this rank updates. Tensors of two dimensions decay, embeddings included;
    biases and norms do not, as in llm.c. ``seed``: tells how weights are rounded by chance.
    """

    def __init__(
        self,
        flat: FlatModel,
        weights: Tensor,
        owned: list[Span],
        weight_decay: float,
        precision: Precision,
        seed: int,
    ) -> None:
        self.owned = owned
        self._flat = flat
        self._weight_decay = weight_decay
        self._precision = precision
        self._seed = seed
        self.segments = [list(_segments(flat, weights, span, precision.state)) for span in owned]

    def squared_norm(self) -> Tensor:
        """Sum of squares of the owned gradients, shape (), fp64."""
        total = torch.zeros((), dtype=torch.float64, device=self._flat.gradients.device)
        for span in self.owned:
            total += sum_of_squares(self._flat.gradients[span.slice])
        return total

    def update(self, bucket: int, learning_rate: float, divisor: Tensor | None) -> None:
        """One step on the owned span of a bucket, with its gradients divided by ``divisor``, ()."""
        for decayed in (True, False):
            segments = [s for s in self.segments[bucket] if s.decayed is decayed]
            how = _How(learning_rate, self._weight_decay if decayed else 0.0, divisor)
            if self._precision.state == torch.float32:
                _update(segments, how)
            else:
                for segment in segments:
                    self._update_in_pieces(segment, how)
            cast = [segment for segment in segments if segment.compute is not segment.weight]
            if cast:
                torch._foreach_copy_([one.compute for one in cast], [one.weight for one in cast])

    def _update_in_pieces(self, segment: Segment, how: "_How") -> None:
        """Update in fp32 what is kept in less; so much at a time that fp32 takes no memory."""
        step = segment.step + 1
        for start in range(0, len(segment.weight), _PIECE):
            part = slice(start, start + _PIECE)
            kept = [values[part] for values in (segment.weight, segment.mean, segment.square)]
            weight, mean, square = (values.float() for values in kept)
            piece = replace(
                segment,
                gradient=segment.gradient[part],
                weight=weight,
                mean=mean,
                square=square,
                step=segment.step.clone(),
            )
            _update([piece], how)
            if self._precision.rounding == "stochastic":
                weight = stochastic(weight, segment.offset + start, step, self._seed)
            for values, updated in zip(kept, (weight, mean, square), strict=True):
                values.copy_(updated)
        segment.step.copy_(step)


@dataclass(frozen=True)
class _How:
    """One update: its rate, its decay, and what its gradients are divided by, shape ()."""

    learning_rate: float
    weight_decay: float
    divisor: Tensor | None


def _update(segments: Sequence[Segment], how: _How) -> None:
    """One fused step of AdamW on fp32 weights and moments, in place; their ``step`` counts it."""
    if not segments:
        return
    adamw(
        [segment.weight for segment in segments],
        [segment.gradient.float() for segment in segments],
        [segment.mean for segment in segments],
        [segment.square for segment in segments],
        [],
        [segment.step for segment in segments],
        fused=True,
        grad_scale=how.divisor,
        amsgrad=False,
        beta1=BETAS[0],
        beta2=BETAS[1],
        lr=how.learning_rate,
        weight_decay=how.weight_decay,
        eps=EPSILON,
        maximize=False,
    )


def _segments(
    flat: FlatModel, weights: Tensor, span: Span, state: torch.dtype
) -> Iterator[Segment]:
    for slot, part in flat.layout.slots_in(span):
        compute = flat.parameters[part.slice]
        weight = compute if compute.dtype == state else weights[part.slice].clone()
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


def sum_of_squares(vector: Tensor) -> Tensor:
    """Sum of squares of a 1-D tensor, shape (), fp64.

    Rows are summed in fp32 and their sums in fp64: one fp32 sum of all would be wrong by percents
    at 10^8 elements, and by other percents for another cut into shards.
    """
    whole = len(vector) // _ROW * _ROW
    rows = torch.linalg.vector_norm(vector[:whole].view(-1, _ROW), dim=1, dtype=torch.float32)
    rest = torch.linalg.vector_norm(vector[whole:], dtype=torch.float32)
    total: Tensor = rows.double().square().sum() + rest.double().square()
    return total
