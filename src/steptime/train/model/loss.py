"""The loss of a table of words on a GPU: its gradient is made in forward, in place of the logits.

Logits weigh more than anything else of a small model: 64 rows of 1,024 tokens of GPT-2 have 6.6 GB
of them in bf16. Left to autograd they are read once for the loss, and read and written again for
its gradient. Here one kernel of Triton does both, a row at a time, so that the second look at a row
finds it in the GPU's cache; after Hsu et al., "Liger Kernel" (arXiv 2410.10989), section 3.
"""

from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._compile import _disable_dynamo

_HAS_TRITON = find_spec("triton") is not None
_BLOCK, _WARPS = 1024, 8
"""Columns of a row that are read at once, and by how many warps: few of each, so that a GPU has
many rows at a time to wait for. 65,536 rows of 50,304 take an H200 4.7 ms so, and 9.2 by 8,192
columns and 16 warps; to read them once and to write them would take 3.1."""


def made_in_place(x: Tensor) -> bool:
    """Whether ``mean_loss`` can be had of these activations.

    Of fp16 it cannot: gradients that no loss scaling lifts would vanish. Triton comes with most of
    torch's builds for GPUs, and not with all.
    """
    return x.is_cuda and x.dtype in (torch.bfloat16, torch.float32) and _HAS_TRITON


# A compiler would copy what is written in place. torch.compiler.disable imports it, which takes a
# second of every rank; this does so when it is called.
@_disable_dynamo
def mean_loss(x: Tensor, table: Tensor, targets: Tensor, real: int) -> Tensor:
    """Mean cross-entropy in nats, shape (), of ``x``, shape (N, C), against ``targets``, (N,).

    ``table``, shape (V, C), has a row for each word and then padding, which begins at ``real``.
    """
    loss: Tensor = _MeanLoss.apply(x, table, targets, real)  # type: ignore[no-untyped-call]
    return loss


class _MeanLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, targets: Tensor, real: int) -> Tensor:
        logits = F.linear(x, table)
        losses = loss_and_gradient(logits, targets, real)
        ctx.save_for_backward(x, table, logits)
        return losses.mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, table, of_logits = ctx.saved_tensors
        (of_loss,) = gradients
        return (of_logits @ table).mul_(of_loss), (of_logits.t() @ x).mul_(of_loss), None, None


def loss_and_gradient(logits: Tensor, targets: Tensor, real: int) -> Tensor:
    """Losses of the rows of ``logits``, shape (N,), fp32, which becomes their mean's gradient.

    ``logits`` has shape (N, V), its rows one after the other; columns from ``real`` on are padding.
    """
    from steptime.train.model.loss_kernel import kernel

    rows, columns = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    kernel[(rows,)](
        logits, targets, losses, real, columns, 1 / rows, BLOCK=_BLOCK, num_warps=_WARPS
    )
    return losses
