"""Text from a model, token by token, with the keys and values of what was read kept.

Shapes: T positions, C channels, kv heads of width D, V tokens; there is one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from steptime.errors import SteptimeError, UsageError
from steptime.train.model import Decoder
from steptime.train.model.attention import rotated
from steptime.train.text import Text, read_text
from steptime.train.weights import Weights, load_weights

if TYPE_CHECKING:
    from torch import Tensor

    from steptime.train.model import Block


@dataclass(frozen=True)
class Writer:
    """A model that continues text, ``window`` tokens in view at most."""

    model: Decoder
    text: Text
    window: int

    def prompt(self, text: str) -> list[int]:
        """The tokens of a prompt, behind that which begins a text.

        Raises UsageError where it is no text, there is none and nothing begins one, it is longer
        than the window, or a token is not in the model's vocabulary.
        """
        begin = [] if self.text.begin is None else [self.text.begin]
        tokens = begin + self.text.encoded(text)
        if not tokens:
            raise UsageError(
                "the prompt is empty, and no token begins a text of this model: say one"
            )
        if len(tokens) > self.window:
            raise UsageError(
                f"the prompt is {len(tokens):,} tokens long, and the model was made for "
                f"{self.window:,}: shorten it"
            )
        vocabulary = self.model.config.vocabulary
        if max(tokens) >= vocabulary:
            raise UsageError(
                f"the prompt has the token {max(tokens):,} and the model's vocabulary ends at "
                f"{vocabulary - 1:,}: its tokenizer is another model's"
            )
        return tokens

    def tokens(
        self, prompt: Sequence[int], choose: Callable[[NDArray[np.float32]], int]
    ) -> Iterator[int]:
        """The tokens after ``prompt``, without end but for that of a text.

        ``choose`` is given the scores of all tokens, shape (V,). Where the window is full, its
        newer half is read again from the first position on: positions beyond the last are unknown
        to the model. Raises SteptimeError where scores are no numbers.
        """
        known = min(self.text.vocabulary, self.model.config.vocabulary)
        seen, cache = list(prompt), _Cache()
        unread = seen
        while True:
            scores = next_scores(self.model, cache, unread)[:known]
            if not np.isfinite(scores).all():
                raise SteptimeError(
                    "the model's scores are no numbers: its training went wrong; name an earlier "
                    "checkpoint"
                )
            token = choose(scores)
            if token in self.text.ends:
                return
            yield token
            seen.append(token)
            unread = [token]
            if cache.length == self.window:
                cache, unread = _Cache(), seen[-max(1, self.window // 2) :]


def open_writer(weights: Weights) -> Writer:
    """The model with these weights, in fp32 on this computer's cores.

    Raises UsageError where the weights cannot be read, or nothing tells what its tokens mean.
    """
    config = weights.dimensions()
    text = read_text(weights.folders, config)
    model = Decoder(config, torch.Generator()).requires_grad_(False)
    load_weights(model, weights)
    return Writer(model, text, min(config.context, text.row or config.context))


@dataclass
class _Cache:
    """Keys and values of what was read so far, each (1, kv, length, D), block by block."""

    length: int = 0
    blocks: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def extended(self, block: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of a block with new ones behind them."""
        if block in self.blocks:
            before = self.blocks[block]
            k, v = torch.cat((before[0], k), dim=2), torch.cat((before[1], v), dim=2)
        self.blocks[block] = k, v
        return k, v


def next_scores(model: Decoder, cache: _Cache, tokens: Sequence[int]) -> NDArray[np.float32]:
    """Scores of the token after ``tokens``, shape (V,), which come after those of the cache."""
    positions = torch.arange(cache.length, cache.length + len(tokens))
    x = model.embedding.wte[torch.tensor(tokens)]  # (T, C)
    if model.embedding.wpe is not None:
        x = x + model.embedding.wpe[positions]
    x = x[None]
    for number, block in enumerate(model.blocks):
        x = _through(block, x, positions, cache, number)  # type: ignore[arg-type]
    cache.length += len(tokens)
    scores: NDArray[np.float32] = model.head.logits(x[:, -1:], model.embedding.wte)[0, 0].numpy()
    return scores


def _through(block: Block, x: Tensor, positions: Tensor, cache: _Cache, number: int) -> Tensor:
    """What ``Block.forward`` computes of positions of which the cache has all before."""
    attention = block.attention
    q, k, v = attention.projected(block.ln1(x))
    if attention.theta is not None:
        q = rotated(q, attention.theta, positions)
        k = rotated(k, attention.theta, positions)
    k, v = cache.extended(number, k, v)
    # Of one position all is in view, of the first ones what is before each: no mask in between.
    y = F.scaled_dot_product_attention(
        q, k, v, is_causal=len(positions) > 1, enable_gqa=attention.heads != attention.kv_heads
    )
    x = x + attention.proj(y.transpose(1, 2).flatten(2))
    out: Tensor = x + block.mlp(block.ln2(x))
    return out
