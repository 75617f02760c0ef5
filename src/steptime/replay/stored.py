"""The program of a proxy, as the run's folder keeps it for other tools."""

from steptime.program import Compute, Op
from steptime.program.stored import StoredProgram
from steptime.replay.workload import Proxy


def proxy_programs(plan: Proxy) -> list[StoredProgram]:
    """The program of a proxy to store with the run, with the seconds its computing stood for."""

    def seconds(op: Op) -> float:
        if isinstance(op, Compute) and plan.compute != "nothing":
            return plan.device.seconds(op)
        return 0.0

    lists = plan.program.lists
    return [
        StoredProgram(
            program=plan.program, seconds=tuple(tuple(map(seconds, ops)) for ops in lists)
        )
    ]
