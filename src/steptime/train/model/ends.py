"""The ends of a model: the embedding of tokens, and the head that tells the next.

Shapes: B rows, T positions, C channels, V tokens, Vp with padding, of which this rank has Vr.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steptime.train.model.loss import made_in_place, mean_loss
from steptime.train.model.norm import norm
from steptime.train.parallel.axes import ALONE, Axes
from steptime.train.parallel.movements import enter, leave
from steptime.train.parallel.words import loss_of_words, words_of_rank
from steptime.workloads.mesh import CONTEXT, TENSOR
from steptime.workloads.models import Transformer


class _TiedTable(torch.autograd.Function):
    """Rows of a table, and the table itself for a second use whose gradient is dense.

    Left to autograd, the rows' gradient would be a second table, zero but for those rows, and the
    sum of both a third. Here backward adds the rows into the dense gradient in place.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(rows)
        return F.embedding(rows, table), table.view_as(table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        of_rows, of_table = gradients
        (rows,) = ctx.saved_tensors
        of_table.index_add_(0, rows.flatten(), of_rows.flatten(0, -2).to(of_table.dtype))
        return of_table, None


class Embedding(nn.Module):
    """Token embeddings, to which GPT-2 adds those of positions."""

    def __init__(self, model: Transformer, axes: Axes = ALONE) -> None:
        super().__init__()
        self._axes = axes
        self.words = words_of_rank(model, axes)
        self.wte = nn.Parameter(torch.empty(len(self.words), model.hidden))
        self.wpe = (
            nn.Parameter(torch.empty(model.context, model.hidden))
            if model.architecture.learned_positions
            else None
        )

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Embed ``tokens``, shape (B, T): (B, T, C), and the table (Vr, C) for a tied head.

        With sequence parallelism T of what it returns is this rank's share.
        """
        own, there = tokens, None
        if self._axes.mesh.tensor > 1:
            there = (tokens >= self.words.start) & (tokens < self.words.stop)
            own = (tokens - self.words.start).where(there, 0)
        rows, table = _TiedTable.apply(self.wte, own)  # type: ignore[no-untyped-call]
        if there is not None:
            rows = leave(rows * there[..., None], self._axes)
        if self.wpe is not None:
            rows = rows + self._positions(self.wpe, tokens.shape[1])
        return rows, table

    def _positions(self, wpe: Tensor, T: int) -> Tensor:
        """Embeddings of the positions of this rank's tokens."""
        axes = self._axes
        if axes.mesh.context == 1 and not axes.sequence_parallel:
            return wpe[:T]
        return wpe[axes.positions_held(T * axes.mesh.sizes[CONTEXT], wpe.device)]


class Head(nn.Module):
    """Final norm, logits over the vocabulary, mean cross-entropy in fp32.

    ``holds_table``: the table is in another stage, and this one has a copy of its own.
    """

    def __init__(
        self, model: Transformer, axes: Axes = ALONE, *, holds_table: bool = False
    ) -> None:
        super().__init__()
        self._axes = axes
        self.vocabulary = model.vocabulary
        self.words = words_of_rank(model, axes)
        shape = (len(self.words), model.hidden)
        self.wte = nn.Parameter(torch.empty(shape)) if holds_table else None
        self.ln = norm(model)
        self.weight = None if model.architecture.tied else nn.Parameter(torch.empty(shape))

    def logits(self, x: Tensor, table: Tensor | None) -> Tensor:
        """Scores of this rank's real tokens, without the padding of the vocabulary, in fp32.

        ``table``: the embedding's, shape (Vr, C), where the head has none of its own.
        """
        own, real = self._own(table), self._real()
        return F.linear(enter(self.ln(x), self._axes), own)[..., :real].float()

    def forward(self, x: Tensor, table: Tensor | None, targets: Tensor) -> Tensor:
        """Loss in nats a token of ``x``, shape (B, T, C), against ``targets``, shape (B, T).

        Along ``context`` each rank has the mean over its own tokens, as many as any other has. With
        sequence parallelism T of ``x`` is this rank's share, and that of ``targets`` is not.
        """
        tensor = self._axes.comm(TENSOR)
        if not tensor and made_in_place(x):
            normed = self.ln(x).flatten(0, 1)
            loss: Tensor = mean_loss(normed, self._own(table), targets.flatten(), self._real())
            return loss
        logits = self.logits(x, table).flatten(0, 1)
        if tensor:
            return loss_of_words(logits, targets.flatten(), self.words.start, tensor)
        return F.cross_entropy(logits, targets.flatten())

    def _own(self, table: Tensor | None) -> Tensor:
        """The words' rows, shape (Vr, C), wherever they are."""
        return next(one for one in (self.weight, self.wte, table) if one is not None)

    def _real(self) -> int:
        """How many of these rows are of words, and no padding."""
        return max(0, min(self.words.stop, self.vocabulary) - self.words.start)
