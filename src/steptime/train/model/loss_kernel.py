"""The kernel of ``loss.py``, in Triton: a row's loss, and its gradient in place of the logits.

Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def kernel(logits, targets, losses, real, columns, weight, BLOCK: tl.constexpr):
    """One row: ``real`` logits of ``columns``; its gradient counts ``weight``."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * columns
    target = tl.load(targets + row)
    lanes = tl.arange(0, BLOCK)
    # Each lane keeps the greatest of its own logits and the sum of powers below it, so that lanes
    # meet once a row. The greatest begins above what is masked: a lane without logits would take
    # infinity from itself.
    greatest = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    wanted = tl.zeros((BLOCK,), tl.float32)
    # A row is read to the end of its padding, whose length lets many logits be read at once.
    for first in range(0, columns, BLOCK):
        at = first + lanes
        own = tl.load(logits + at, mask=at < columns, other=0.0).to(tl.float32)
        own = tl.where(at < real, own, float("-inf"))
        wanted += tl.where(at == target, own, 0.0)
        above = tl.maximum(greatest, own)
        total = total * tl.exp(greatest - above) + tl.exp(own - above)
        greatest = above
    most = tl.max(greatest, 0)
    log_total = most + tl.log(tl.sum(total * tl.exp(greatest - most), 0))
    tl.store(losses + row, log_total - tl.sum(wanted, 0))
    # Each lane writes where it alone has read.
    for first in range(0, columns, BLOCK):
        at = first + lanes
        own = tl.load(logits + at, mask=at < columns, other=0.0).to(tl.float32)
        own = tl.where(at < real, own, float("-inf"))
        gradient = (tl.exp(own - log_total) - tl.where(at == target, 1.0, 0.0)) * weight
        tl.store(logits + at, gradient, mask=at < columns)
