"""Gradient-sync strategies: every module of this package that defines STRATEGY is one.

Its one file says how it moves gradients, live and in a Program, by the same functions.
"""

from steptime.strategies.lookup import (
    BASELINE,
    check_backend,
    live_strategies,
    live_strategy,
    only_trained,
    simulated_strategy,
    strategies,
    strategy_named,
    trained_strategy,
)
from steptime.strategies.span import Span
from steptime.strategies.strategy import Communicator, Strategy, Vector, Work

__all__ = [
    "BASELINE",
    "Communicator",
    "Span",
    "Strategy",
    "Vector",
    "Work",
    "check_backend",
    "live_strategies",
    "live_strategy",
    "only_trained",
    "simulated_strategy",
    "strategies",
    "strategy_named",
    "trained_strategy",
]
