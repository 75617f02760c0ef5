"""What a simulated step spends along each axis that its ranks share a model along."""

from collections.abc import Sequence

from steptime.predict.driven import SLOWEST
from steptime.program import Program
from steptime.program.pair_bytes import call_name
from steptime.runs.axis_time import AxisTime, axis_times
from steptime.runs.figures import CallKind
from steptime.simulate.call_costs import LATE, POSTING
from steptime.simulate.simulation import Simulation
from steptime.simulate.work import REST, WORK
from steptime.timeline.by_axis import times_by_axis


def simulated_axes(
    program: Program, simulation: Simulation, calls: Sequence[CallKind]
) -> list[AxisTime]:
    """The times of each axis in the last step; none where the timeline does not hold all ranks.

    ``calls``: those of the program. Ranks that are replicas alone have but one axis, and none here.
    """
    line = simulation.timeline
    steps = line.steps_named(program.name)
    last = int(steps["step"].max(initial=0))
    if len(program.axes) == 1 or (steps["step"] == last).sum() < program.ranks:
        return []
    group_of = {(call.name, call.stream, call.bytes): call.group for call in calls}
    group_of_costs = {(call.name, call.stream): call.group for call in calls}

    def axis_of(name: str, stream: str, nbytes: int) -> str:
        for cost in (LATE, REST, WORK):
            if name.startswith(cost):
                return group_of_costs[call_name(name.removeprefix(cost)), stream]
        # To post messages, or to wait for the slowest device, is not done along any axis.
        return "" if name in (POSTING, SLOWEST) else group_of[call_name(name), stream, nbytes]

    found = times_by_axis(line, program.name, axis_of, last)
    return axis_times(found, float(simulation.step_s[-1]))
