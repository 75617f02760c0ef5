"""steptime tells where the time of a distributed training step goes.

What it offers to notebooks and scripts, by ``import steptime as st``, is loaded when it is first
used. Some of these functions have the name of a package below: ``steptime.simulate`` is the
function, and ``from steptime.simulate import step`` still finds the package's modules.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from steptime.version import __version__

if TYPE_CHECKING:
    from steptime.api.benchmarks import bench as bench
    from steptime.api.checking import check as check
    from steptime.api.comparing import compare as compare
    from steptime.api.differences import diff as diff
    from steptime.api.emulating import emulate as emulate
    from steptime.api.exporting import export as export
    from steptime.api.flows import flows as flows
    from steptime.api.generating import generate as generate
    from steptime.api.histories import history as history
    from steptime.api.lessons import lesson as lesson
    from steptime.api.machines import measure as measure
    from steptime.api.machines import topo as topo
    from steptime.api.names import cluster as cluster
    from steptime.api.names import model as model
    from steptime.api.pictures import show as show
    from steptime.api.planning import plan as plan
    from steptime.api.preparing import prepare as prepare
    from steptime.api.proofs import verify as verify
    from steptime.api.proxies import proxy as proxy
    from steptime.api.recording import record as record
    from steptime.api.recording import step as step
    from steptime.api.replaying import replay as replay
    from steptime.api.results import load as load
    from steptime.api.running import run as run
    from steptime.api.scaling import scale as scale
    from steptime.api.simulation import simulate as simulate
    from steptime.api.submitting import submit as submit
    from steptime.api.sweeps import sweep as sweep
    from steptime.api.training import train as train
    from steptime.api.tuning import tune as tune
    from steptime.api.what_ifs import what_ifs as what_ifs

_OFFERED = {
    "bench": "benchmarks",
    "check": "checking",
    "cluster": "names",
    "compare": "comparing",
    "diff": "differences",
    "emulate": "emulating",
    "export": "exporting",
    "flows": "flows",
    "generate": "generating",
    "history": "histories",
    "lesson": "lessons",
    "load": "results",
    "measure": "machines",
    "model": "names",
    "plan": "planning",
    "prepare": "preparing",
    "proxy": "proxies",
    "record": "recording",
    "replay": "replaying",
    "run": "running",
    "scale": "scaling",
    "show": "pictures",
    "simulate": "simulation",
    "step": "recording",
    "submit": "submitting",
    "sweep": "sweeps",
    "topo": "machines",
    "train": "training",
    "tune": "tuning",
    "verify": "proofs",
    "what_ifs": "what_ifs",
}
"""The module of the package ``api`` that each name comes from."""

__all__ = ["__version__", *_OFFERED]


def __getattr__(name: str) -> object:
    if name not in _OFFERED:
        raise AttributeError(f"module 'steptime' has no attribute {name!r}")
    value = getattr(import_module(f"steptime.api.{_OFFERED[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """This package, whose functions keep their names when a package below is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _OFFERED and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
