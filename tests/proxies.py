"""Proxies by their options, those of the step and those beside it together."""

from dataclasses import fields
from typing import Any

from steptime.replay.options import ProxyOptions
from steptime.replay.workload import Proxy, proxy_of
from steptime.workloads.spec import StepSpec

_OF_STEP = {field.name for field in fields(StepSpec)}


def proxied(model: str, ranks: int | None, **given: Any) -> Proxy:
    """The proxy of a model on so many ranks, as the verb makes it of its options."""
    step = {name: value for name, value in given.items() if name in _OF_STEP}
    beside = {name: value for name, value in given.items() if name not in _OF_STEP}
    return proxy_of(StepSpec(model=model, ranks=ranks, **step), ProxyOptions(**beside))
