"""Gradient-sync strategies: every module of this package that defines STRATEGY is one."""

from importlib import import_module
from pkgutil import iter_modules

from steptime.errors import UsageError
from steptime.train.strategy import Strategy

BASELINE = "server"


def strategies() -> dict[str, Strategy]:
    """All strategies by name: the baseline first, then those without overlap, then the others."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    found: list[Strategy] = [module.STRATEGY for module in modules]
    found.sort(key=lambda s: (s.name != BASELINE, s.overlapped, s.name))
    return {strategy.name: strategy for strategy in found}


def strategy_named(name: str) -> Strategy:
    """The strategy called ``name``; raises UsageError, naming all there are, where it is none."""
    known = strategies()
    if name not in known:
        raise UsageError(f"there is no strategy '{name}'; choose from {', '.join(known)}")
    return known[name]


def check_backend(strategy: Strategy, backend: str) -> None:
    """Raise UsageError when ``strategy`` cannot run on a backend."""
    if strategy.in_shared_memory and backend == "nccl":
        raise UsageError(
            f"the strategy {strategy.name} keeps parameters in memory that processes share, which "
            "those on GPUs do not: choose another strategy or another --backend"
        )
