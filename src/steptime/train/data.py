"""Batches: the rows of tokens that each rank trains on at each step, and checks beforehand."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.errors import UsageError
from steptime.train.options import DataOptions
from steptime.train.prepared import check_prepared, is_prepared
from steptime.train.shards import check_token_ids
from steptime.train.tokenizer import TokenArray, check_tokenizer
from steptime.train.tokens import Tokens, check_vocabulary, load_tokens, shard_paths

Batch: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Inputs and targets, each ``(B, T)``: each target is the token after its input."""


def check_data(
    options: DataOptions,
    *,
    context: int,
    batch: int,
    ranks: int,
    model_vocabulary: int | None = None,
) -> None:
    """Read and check the data as every rank will, without the cost of training a tokenizer.

    ``batch`` counts rows of ``context`` tokens, all ranks together; ``model_vocabulary``: of a
    model that has its weights already. Raises UsageError, naming the
    file, for whatever ``load_tokens`` and ``check_length`` refuse, and for ids beyond a shard's
    vocabulary.
    """
    prepared = options.data if options.data and is_prepared(options.data) else None
    tokens = load_tokens(options if prepared else replace(options, tokenizer="byte"))
    if prepared:
        check_prepared(prepared)
    else:
        for path in shard_paths(options.data):
            check_token_ids(path)
    if model_vocabulary and not tokens.tokenizer:
        check_vocabulary(tokens, model_vocabulary)
    if tokens.tokenizer:
        check_tokenizer(options)
        # No token is shorter than a byte: text with too few bytes has too few tokens of any kind,
        # and is short enough to count them.
        if options.tokenizer not in (None, "byte") and _shortage(tokens, context, batch, ranks):
            tokens = load_tokens(options)
    check_length(tokens, context=context, batch=batch, ranks=ranks)


def check_length(tokens: Tokens, *, context: int, batch: int, ranks: int) -> None:
    """Raise UsageError when a batch, or the validation of one row a rank, needs more tokens."""
    if sentence := _shortage(tokens, context, batch, ranks):
        raise UsageError(sentence)


class _Ahead:
    """The batch of one step, gathered in a thread before anyone asks for it."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._step = -1
        self._rows: Future[Batch] | None = None

    def begin(self, step: int, gather: Callable[[int], Batch]) -> None:
        """Begin to gather the rows of ``step``; those of any other step are forgotten."""
        self._pool = self._pool or ThreadPoolExecutor(1, "batches")
        self._step, self._rows = step, self._pool.submit(gather, step)

    def take(self, step: int) -> Batch | None:
        """The rows of ``step``, waited for, where that is the step which was begun; else None."""
        rows, self._rows = self._rows, None
        if rows is None or self._step != step:
            return None
        return rows.result()


@dataclass(frozen=True, eq=False)
class Batches:
    """The rows that one rank trains on at each step, a function of the step alone.

    A row is one of the windows of ``context`` tokens (and the next one, to predict) that follow one
    another in an array of tokens. An epoch is one permutation of all windows by ``(seed, epoch)``,
    cut into steps of ``batch`` rows; a remainder is left out of that epoch. Rank r of p has rows
    r·batch/p to (r+1)·batch/p of a step, so the rows of a step do not depend on the number of
    ranks: the step is all that a checkpoint must hold, and any number of ranks goes on from it.

    While a step computes, a thread gathers the rows of the next one, which may be on a slow disk.
    The permutation takes 8 bytes a window: 8 MB for 1e9 tokens in rows of 1024, 0.8 GB for 1e11.

    Raises UsageError as ``check_length`` does.
    """

    tokens: Tokens
    context: int
    batch: int
    """Rows of the global batch, all ranks together."""
    rank: int
    ranks: int
    seed: int
    _ahead: _Ahead = field(init=False, repr=False, default_factory=_Ahead)

    def __post_init__(self) -> None:
        check_length(self.tokens, context=self.context, batch=self.batch, ranks=self.ranks)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches that the training tokens yield."""
        return _window_count(self.tokens.train, self.context) // self.batch

    def at(self, step: int) -> Batch:
        """This rank's inputs and targets at a step counted from 0, ``(batch / ranks, context)``."""
        rows = self._ahead.take(step) or self._gathered(step)
        self._ahead.begin(step + 1, self._gathered)
        return rows

    def _gathered(self, step: int) -> Batch:
        epoch, step_in_epoch = divmod(step, self.steps_per_epoch)
        order = _permutation(self.seed, epoch, _window_count(self.tokens.train, self.context))
        rows = order[step_in_epoch * self.batch :][: self.batch]
        return _gather(self.tokens.train, self.context, _rows_of_rank(rows, self.rank, self.ranks))


def validation_batches(
    tokens: Tokens, *, context: int, batch: int, rank: int, ranks: int, steps: int
) -> Iterator[Batch]:
    """This rank's part of the first ``steps · batch`` held-out windows, in order, unshuffled.

    Yields inputs and targets ``(batch / ranks, context)``, as many on every rank: whole batches, at
    most ``steps``. Where there is no whole batch, one smaller batch of as many rows as the ranks
    can divide. Raises UsageError as ``check_length`` does.
    """
    check_length(tokens, context=context, batch=batch, ranks=ranks)
    windows = _window_count(tokens.validation, context)
    batch = min(batch, windows // ranks * ranks)
    order = np.arange(min(steps, windows // batch) * batch).reshape(-1, batch)
    return (_gather(tokens.validation, context, _rows_of_rank(rows, rank, ranks)) for rows in order)


def _shortage(tokens: Tokens, context: int, batch: int, ranks: int) -> str | None:
    """Why there are too few tokens, in one sentence; None when there are enough."""
    for arrays, part, needed, why, smaller in (
        (tokens.train, "training", batch, f"a batch needs {batch:,}", "a smaller --batch"),
        (tokens.validation, "validation", ranks, f"{ranks} ranks need one each", "fewer ranks"),
    ):
        windows = _window_count(arrays, context)
        if windows < needed:
            count = sum(len(array) for array in arrays)
            return (
                f"{tokens.source}, is too short: its {count:,} {part} tokens make {windows:,} rows "
                f"of {context:,}, and {why} ({needed * context + 1:,} tokens); give more with "
                f"--data, or choose {smaller} or a smaller --tokens"
            )
    return None


def _window_counts(arrays: Sequence[TokenArray], context: int) -> list[int]:
    return [max(0, len(array) - 1) // context for array in arrays]


def _window_count(arrays: Sequence[TokenArray], context: int) -> int:
    return sum(_window_counts(arrays, context))


def _rows_of_rank(rows: NDArray[np.int64], rank: int, ranks: int) -> NDArray[np.int64]:
    return rows[len(rows) * rank // ranks : len(rows) * (rank + 1) // ranks]


@lru_cache(maxsize=1)
def _permutation(seed: int, epoch: int, windows: int) -> NDArray[np.int64]:
    order = np.random.Generator(np.random.PCG64([seed, epoch])).permutation(windows)
    order.setflags(write=False)
    return order


def _gather(arrays: Sequence[TokenArray], context: int, windows: NDArray[np.int64]) -> Batch:
    """The windows of these numbers, counted through all arrays, as inputs and targets."""
    ends = np.cumsum(_window_counts(arrays, context))
    which = np.searchsorted(ends, windows, side="right")
    firsts = (windows - np.append(0, ends)[which]) * context
    plain = {i: np.asarray(arrays[i]) for i in set(which.tolist())}  # a memmap is slow to slice
    inputs, targets = (np.empty((len(windows), context), np.int64) for _ in range(2))
    for row, (array, first) in enumerate(zip(which.tolist(), firsts.tolist(), strict=True)):
        tokens = plain[array][first : first + context + 1]
        inputs[row], targets[row] = tokens[:-1], tokens[1:]
    return inputs, targets
