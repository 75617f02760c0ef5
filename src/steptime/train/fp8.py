"""fp8, emulated: what the format does to a loss, on any device; nothing becomes faster by it.

Products of blocks take inputs rounded to 8 bits: activations and weights to e4m3, gradients to
e5m2, each tensor scaled so that its largest element is the format's largest (Micikevicius et al.,
"FP8 Formats for Deep Learning", arXiv 2209.05433; Transformer Engine's current scaling). They are
multiplied and summed in fp32. Embedding, attention's scores, logits and norms are not touched.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_TINY = 2.0**-100


class Fp8Linear(nn.Linear):
    """A linear layer whose product is that of fp8."""

    def forward(self, x: Tensor) -> Tensor:
        """As a linear layer: (..., inputs) to (..., outputs)."""
        made = product(self, x)
        return made if self.bias is None else made + self.bias


def emulate_fp8(module: nn.Module) -> None:
    """Let every linear layer in ``module`` but the routers of experts compute as fp8 does."""
    for name, layer in module.named_modules():
        if type(layer) is nn.Linear and not name.endswith("router"):
            layer.__class__ = Fp8Linear


def product(linear: nn.Linear, x: Tensor) -> Tensor:
    """``linear`` of ``x`` without the bias, by fp8 where the layer does so."""
    if not isinstance(linear, Fp8Linear):
        return F.linear(x, linear.weight)
    made: Tensor = _Product.apply(x, linear.weight)  # type: ignore[no-untyped-call]
    return made


class _Product(torch.autograd.Function):
    """The three products of a linear layer; backward's read what forward has rounded."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows, of_x = rounded(x.flatten(0, -2), torch.float8_e4m3fn)
        columns, of_weight = rounded(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(rows, of_x, columns, of_weight)
        made = (rows.float() @ columns.float().T) * (of_x * of_weight)
        return made.to(x.dtype).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        rows, of_x, columns, of_weight = ctx.saved_tensors
        (gradient,) = gradients
        of_out, scale = rounded(gradient.flatten(0, -2), torch.float8_e5m2)
        of_rows = (of_out.float() @ columns.float()) * (scale * of_weight)
        of_columns = (of_out.float().T @ rows.float()) * (scale * of_x)
        shape = (*gradient.shape[:-1], rows.shape[1])
        return of_rows.to(gradient.dtype).view(shape), of_columns.to(gradient.dtype)


def rounded(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """``x`` in an 8-bit ``dtype``, scaled by its largest element, and the factor to undo it, ()."""
    x = x.float()
    factor = x.abs().amax().clamp(min=_TINY) / torch.finfo(dtype).max
    return (x / factor).to(dtype), factor
