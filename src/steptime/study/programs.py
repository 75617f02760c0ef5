"""The programs of a run, as its folder keeps them for other tools."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from steptime.cluster.cluster import Device
from steptime.program import Compute, Program
from steptime.program.stored import StoredProgram
from steptime.replay.workload import Proxy
from steptime.simulate.device import timer
from steptime.strategies import strategy_named
from steptime.strategies.calls import not_simulated
from steptime.study.comparison import Comparison
from steptime.study.resimulate import measured_case
from steptime.train.options import JobOptions
from steptime.workloads.models import Transformer

if TYPE_CHECKING:
    from steptime.study.simulate import Study  # which loads the simulator

_NONE_NAMED: Mapping[str, str] = MappingProxyType({})


def simulated_programs(study: "Study") -> list[StoredProgram]:
    """The steps that were simulated, with what computing takes on a device of the cluster."""
    device: Device = study.cluster.device
    seconds = timer(device)
    return [
        _stored(case.program, seconds, case.algorithms, 1 / device.reduction)
        for case in study.asked.cases
    ]


def proxy_programs(proxy: Proxy) -> list[StoredProgram]:
    """The program of a proxy, with the seconds its computing stood for."""
    charged = 1 / proxy.cluster.device.reduction if proxy.cluster else 0.0
    return [_stored(proxy.program, proxy.seconds_of, reduce_s_per_byte=charged)]


def trained_programs(
    comparison: Comparison, options: JobOptions, config: Transformer
) -> list[StoredProgram]:
    """The steps that were trained, with the compute and update measured, shared out by FLOP.

    A strategy of which no Program can be made has none.
    """
    return [
        _stored(
            replace(measured_case(name, figures, options, config).program, name=name),
            lambda op: op.seconds or 0.0,
        )
        for name, figures in comparison.strategies.items()
        if not not_simulated(strategy_named(name))
    ]


def _stored(
    program: Program,
    seconds: Callable[[Compute], float],
    algorithms: Mapping[str, str] = _NONE_NAMED,
    reduce_s_per_byte: float = 0.0,
) -> StoredProgram:
    return StoredProgram(
        program=program,
        seconds=tuple(
            tuple(seconds(op) if isinstance(op, Compute) else 0.0 for op in ops)
            for ops in program.lists
        ),
        algorithms=algorithms,
        reduce_s_per_byte=reduce_s_per_byte,
    )
