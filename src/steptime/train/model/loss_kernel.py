"""The kernel of ``loss.py``, in Triton: a row's loss, and its gradient in place of the logits.

Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def kernel(logits, targets, losses, real, columns, weight, BLOCK: tl.constexpr):
    """One row: ``real`` logits of ``columns``; its gradient counts ``weight``.

    Powers are of 2, which a GPU has at once, and logits times log2(e).
    """
    LOG2_E: tl.constexpr = 1.4426950408889634
    row = tl.program_id(0).to(tl.int64)
    logits += row * columns
    target = tl.load(targets + row)
    wanted = tl.load(logits + target).to(tl.float32)
    lanes = tl.arange(0, BLOCK)
    whole = real // BLOCK * BLOCK  # padding is behind
    rest = whole + lanes
    # Each lane keeps the greatest of its own logits and the sum of powers below it, so that lanes
    # meet once a row. The greatest begins above what is masked: a lane without logits would take
    # infinity from itself.
    greatest = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, whole, BLOCK):
        own = tl.load(logits + first + lanes).to(tl.float32) * LOG2_E
        above = tl.maximum(greatest, own)
        total = total * tl.exp2(greatest - above) + tl.exp2(own - above)
        greatest = above
    own = tl.load(logits + rest, mask=rest < real, other=float("-inf")).to(tl.float32) * LOG2_E
    above = tl.maximum(greatest, own)
    total = total * tl.exp2(greatest - above) + tl.exp2(own - above)
    most = tl.max(above, 0)
    log_total = most + tl.log2(tl.sum(total * tl.exp2(above - most), 0))
    tl.store(losses + row, log_total / LOG2_E - wanted)
    tl.debug_barrier()  # all have read the logit of the target by now
    # From here on each lane writes where it alone has read.
    for first in range(0, whole, BLOCK):
        own = tl.load(logits + first + lanes).to(tl.float32) * LOG2_E
        own = tl.exp2(own - log_total) - tl.where(first + lanes == target, 1.0, 0.0)
        tl.store(logits + first + lanes, own * weight)
    for first in range(whole, columns, BLOCK):
        at = first + lanes
        own = tl.load(logits + at, mask=at < real, other=float("-inf")).to(tl.float32) * LOG2_E
        own = tl.exp2(own - log_total) - tl.where(at == target, 1.0, 0.0)
        tl.store(logits + at, own * weight, mask=at < columns)
