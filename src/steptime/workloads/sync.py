"""Sync: the collectives that a strategy calls in a Program, and the elements a rank updates."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, TypeAlias

from steptime.errors import UsageError
from steptime.strategies import Span, Strategy, simulated_strategy, strategies
from steptime.strategies.calls import Call, calls, not_simulated

Updates: TypeAlias = Literal["root", "shard", "all"]
Calls: TypeAlias = Callable[[int, int], tuple[Call, ...]]
"""The calls for a bucket of so many elements among so many ranks."""


@dataclass(frozen=True)
class Sync:
    """A strategy, with the questions that generators of steps have about it."""

    strategy: Strategy

    @property
    def overlapped(self) -> bool:
        """Whether buckets are reduced behind backward and shared behind the next forward."""
        return self.strategy.overlapped

    @property
    def zero(self) -> int:
        """Its stage of ZeRO, 0 where it has none."""
        return self.strategy.zero or 0

    @property
    def reduce(self) -> Calls:
        """The calls that sum gradients."""
        return partial(calls, self.strategy.reduce)

    @property
    def share(self) -> Calls:
        """The calls that bring updated parameters to all ranks."""
        return partial(calls, self.strategy.share)

    @property
    def gather(self) -> Calls:
        """The calls that bring parameters to all ranks before computing, in ZeRO's stage 3."""
        return partial(calls, self.strategy.gather or (lambda *_: ()))

    @cached_property
    def shares(self) -> bool:
        """Whether updated parameters are communicated at all."""
        return bool(self.share(2, 2))

    @cached_property
    def updates(self) -> Updates:
        """Which part of a bucket a rank updates: all, its shard, or at the root alone all.

        Raises UsageError where ranks own other parts than these.
        """
        owned = [len(self.strategy.owned(Span(0, 4), rank, 4)) for rank in range(4)]
        known: dict[tuple[int, ...], Updates] = {
            (4, 4, 4, 4): "all",
            (1, 1, 1, 1): "shard",
            (4, 0, 0, 0): "root",
        }
        if tuple(owned) not in known:
            raise UsageError(
                f"of 4 elements the ranks of {self.strategy.name} own {owned}: a simulated step "
                "takes all on every rank, all on rank 0, or a share of its own on each"
            )
        return known[tuple(owned)]

    @cached_property
    def symmetric(self) -> bool:
        """Whether all ranks do the same, so that it can serve any group of them."""
        calls = (*self.reduce(2, 2), *self.share(2, 2))
        rooted = any(call.kind in ("reduce", "broadcast", "barrier") for call in calls)
        return not rooted and self.updates != "root" and not self.strategy.in_shared_memory

    def owned(self, elements: int, ranks: int, *, is_root: bool) -> int:
        """How many of the ``elements`` of a bucket a rank updates."""
        match self.updates:
            case "root":
                return elements if is_root else 0
            case "shard":
                return elements // ranks
            case "all":
                return elements


def sync_named(name: str) -> Sync:
    """The Sync of the strategy ``name``; raises UsageError, which lists all, for another name."""
    return Sync(simulated_strategy(name))


def strategies_of_many_axes() -> tuple[str, ...]:
    """The strategies of hybrid parallelism that ``train`` has too: symmetric ones.

    ZeRO's stages 2 and 3 are possible besides.
    """
    return tuple(
        name
        for name, strategy in strategies().items()
        if strategy.whole
        and not strategy.not_trained
        and not not_simulated(strategy)
        and Sync(strategy).symmetric
    )


def strategies_of_zero(stage: int) -> tuple[str, ...]:
    """The strategies that are this stage of ZeRO, the plainest first; none for a stage below 0."""
    return tuple(name for name, strategy in strategies().items() if strategy.zero == stage)


def strategy_of_zero(stage: int | None, strategy: str | None) -> str | None:
    """The strategy given by its name, by its ``stage`` of ZeRO, or both; None for neither.

    Raises UsageError where there is no such stage or the two contradict each other.
    """
    if stage is None:
        return strategy
    able = strategies_of_zero(stage)
    if not able:
        raise UsageError(f"--zero is {stage}: ZeRO has the stages 0, 1, 2 and 3")
    if strategy is not None and strategy not in able:
        raise UsageError(
            f"--zero {stage} and --strategy {strategy} contradict each other: leave one out, or "
            f"give --strategy {' or '.join(able)}"
        )
    return strategy or able[0]
