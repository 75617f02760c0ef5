"""GPT-2's MLP on a GPU, with GELU inside the products before and after it.

On its own GELU reads and writes the widest activations of a block once more, forward and backward,
which takes a GPU a third as long as the products themselves. cuBLASLt does it as it writes them
(``cublaslt.py``), as llm.c does (``matmul_forward_cublaslt`` in llmc/matmul.cuh).

Shapes: N tokens, C channels, I inner activations.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from steptime.train.model.cublaslt import ALIGNMENTS, Epilogue, Factors, Product

_LEAST_CAPABILITY = 9
"""Of GPUs from Hopper on: before, these products take longer than the parts on their own."""

_MULTIPLE = 8
"""Widths that cuBLASLt's epilogues take."""

_LEAST_ACTIVATIONS = 1 << 26
"""Of smaller steps a GPU waits for Python, which takes 0.1 ms a block longer for these products."""


def fused(x: Tensor, fc: Tensor) -> bool:
    """Whether ``gelu_mlp`` is made for such activations, (…, C), and such a weight, (I, C).

    It is for training: what is generated has another number of tokens each time. 124M takes it from
    32 rows of 1,024 tokens on.
    """
    return (
        x.is_cuda
        and torch.is_grad_enabled()
        and x.numel() // fc.shape[1] * fc.shape[0] >= _LEAST_ACTIVATIONS
        and x.dtype == fc.dtype == torch.bfloat16
        and all(width % _MULTIPLE == 0 for width in fc.shape)
        and torch.cuda.get_device_properties(x.device).major >= _LEAST_CAPABILITY
    )


def gelu_mlp(x: Tensor, fc: Tensor, bias: Tensor, proj: Tensor) -> Tensor:
    """GELU (by tanh) of ``x`` fc' + ``bias``, times proj': shapes (…, C), (I, C), (I,), (C, I)."""
    made: Tensor = _GeluMLP.apply(x.flatten(0, -2), fc, bias, proj)  # type: ignore[no-untyped-call]
    return made.view(*x.shape[:-1], -1)


class _GeluMLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, fc: Tensor, bias: Tensor, proj: Tensor) -> Tensor:
        out, inner = torch.ops.steptime.gelu_product(x, fc, bias)
        ctx.save_for_backward(x, fc, proj, out, inner)
        made: Tensor = out @ proj.t()
        return made

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, fc, proj, out, inner = ctx.saved_tensors
        (of_made,) = gradients
        of_inner = torch.ops.steptime.gelu_backward_product(of_made, proj, inner)
        return of_inner @ fc, of_inner.t() @ x, of_inner.sum(0), of_made.t() @ out


# A compiler takes these as they are, and all around them into its graph.
_operators = torch.library.Library("steptime", "DEF")
_operators.define("gelu_product(Tensor x, Tensor fc, Tensor bias) -> (Tensor, Tensor)")
_operators.define("gelu_backward_product(Tensor of_made, Tensor proj, Tensor inner) -> Tensor")


def _gelu_product(x: Tensor, fc: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """GELU of (N, I) inner activations, and these."""
    x = x.contiguous()
    product = _product(Epilogue.GELU, x, fc, bias, transposed=True)
    if product is None:
        inner = F.linear(x, fc, bias)
        return F.gelu(inner, approximate="tanh"), inner
    out, inner = (x.new_empty(len(x), len(fc)) for _ in range(2))
    product(x, fc, out, inner, bias)
    return out, inner


def _gelu_backward_product(of_made: Tensor, proj: Tensor, inner: Tensor) -> Tensor:
    """The gradient of the inner activations, (N, I), from that of what was made of them, (N, C)."""
    of_made = of_made.contiguous()
    product = _product(Epilogue.GELU_BACKWARD, of_made, proj, inner, transposed=False)
    if product is None:
        made: Tensor = torch.ops.aten.gelu_backward(of_made @ proj, inner, approximate="tanh")
        return made
    out = torch.empty_like(inner)
    product(of_made, proj, out, inner)
    return out


def _product(
    epilogue: Epilogue, x: Tensor, weight: Tensor, beside: Tensor, *, transposed: bool
) -> Product | None:
    """How cuBLASLt computes this; None where it does not, and torch does it in parts."""
    given = x, weight, beside
    aligned = [by for by in ALIGNMENTS if all(one.data_ptr() % by == 0 for one in given)]
    if not aligned or not all(one.is_cuda and one.is_contiguous() for one in given):
        return None
    columns, inner = weight.shape if transposed else weight.shape[::-1]
    of = Factors(len(x), inner, columns, transposed, x.device.index, aligned[0])
    return _known(epilogue, of)


@cache
def _known(epilogue: Epilogue, of: Factors) -> Product | None:
    try:
        return Product(epilogue, of)
    except RuntimeError:
        return None


_operators.impl("gelu_product", _gelu_product, "CompositeExplicitAutograd")
_operators.impl("gelu_backward_product", _gelu_backward_product, "CompositeExplicitAutograd")


def _shapes(x: Tensor, fc: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
    out, inner = (x.new_empty(len(x), len(fc)) for _ in range(2))
    return out, inner


torch.library.register_fake("steptime::gelu_product", _shapes)
torch.library.register_fake(
    "steptime::gelu_backward_product", lambda _, __, inner: torch.empty_like(inner)
)
