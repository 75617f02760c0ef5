"""Lookup: which strategy a word means, one of this folder or that of a user's file."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import steptime.strategies as package
from steptime.discovery import is_file, member_of_file, members
from steptime.errors import UsageError
from steptime.nearest import did_you_mean
from steptime.strategies.calls import not_simulated
from steptime.strategies.strategy import Strategy

BASELINE = "server"
"""What the others are held against."""


@cache
def strategies() -> Mapping[str, Strategy]:
    """All strategies by name: the baseline first, then those without overlap, then the others.

    Those that shard gradients or parameters too come last.
    """
    found = members(package.__name__, "STRATEGY", Strategy)
    found.sort(key=lambda s: (s.name != BASELINE, not s.whole, s.overlapped, s.name))
    return MappingProxyType({strategy.name: strategy for strategy in found})


def live_strategies() -> dict[str, Strategy]:
    """Those under which replicas train that keep the whole model, and can be compared."""
    found = strategies().items()
    return {name: one for name, one in found if one.whole and not one.not_trained}


def only_trained() -> dict[str, str]:
    """Why each strategy that can be trained under, and not simulated, cannot be, by its name."""
    found = {name: not_simulated(one) for name, one in live_strategies().items()}
    return {name: why for name, why in found.items() if why}


def strategy_named(word: str) -> Strategy:
    """The strategy of that name, or that of ``FILE.py``, which then goes by the file's name.

    Raises UsageError, which says what there is, where there is none.
    """
    if is_file(word):
        own = member_of_file(word, "STRATEGY", Strategy, what="strategy")
        return replace(own, name=word)
    known = strategies()
    if word not in known:
        raise UsageError(f"there is no strategy '{word}'{_nearest(word, known)}")
    return known[word]


def live_strategy(word: str) -> Strategy:
    """The same of those that can be compared; raises UsageError where it is none of them."""
    strategy = trained_strategy(word)
    if not strategy.whole:
        raise UsageError(
            f"the strategy {word} cannot be compared live: its ranks keep no whole model, or no "
            "whole gradient (train, simulate and proxy take it); choose from "
            f"{', '.join(live_strategies())}"
        )
    return strategy


def trained_strategy(word: str) -> Strategy:
    """The same of those that can be trained under; raises UsageError where it is none of them."""
    strategy = strategy_named(word)
    if strategy.not_trained:
        raise UsageError(
            f"the strategy {word} cannot be trained: {strategy.not_trained}; choose from "
            f"{', '.join(live_strategies())}"
        )
    return strategy


def simulated_strategy(word: str) -> Strategy:
    """The same of those that can be simulated; raises UsageError where it is none of them."""
    strategy = strategy_named(word)
    if why := not_simulated(strategy):
        raise UsageError(f"the strategy {word} cannot be simulated: {why}; choose another")
    return strategy


def check_backend(strategy: Strategy, backend: str) -> None:
    """Raise UsageError when ``strategy`` cannot run on a backend."""
    if strategy.in_shared_memory and backend == "nccl":
        raise UsageError(
            f"the strategy {strategy.name} keeps parameters in memory that processes share, which "
            "those on GPUs do not: choose another strategy or another --backend"
        )


def _nearest(word: str, known: Mapping[str, Strategy]) -> str:
    for name, strategy in known.items():
        if word.casefold() in strategy.known_as:
            return f": it is called {name} here"
    mend = did_you_mean(word, known)
    return f": {mend}" if mend else f"; choose from {', '.join(known)}"
