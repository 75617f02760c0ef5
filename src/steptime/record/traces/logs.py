"""The calls of traces as logs of processes, so that what reads recordings reads them too."""

import numpy as np

from steptime.record.events import ASYNC, Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import Group, ProcessLog, Signature, Site
from steptime.record.rows import EVENT
from steptime.record.traces.opening import Trace
from steptime.record.traces.trace import RankTrace


def trace_logs(trace: Trace) -> list[ProcessLog]:
    """A log for each rank that has a trace, with its calls in the order of their issue.

    Marks of the clock are nanoseconds of the wall clock. A call that had not ended has no end; one
    that ended nobody knows when has ended when it was issued. Every call counts as asynchronous:
    no trace tells. Steps end as the trace says.
    """
    return [_log(one, trace) for one in trace.ranks]


def _log(one: RankTrace, trace: Trace) -> ProcessLog:
    kinds = [operation.kind for operation in OPERATIONS]
    calls = sorted(
        (call for call in one.calls if call.kind in kinds),
        key=lambda call: call.issued or call.begin,
    )
    groups: dict[Group, int] = {}
    sites: dict[Site, int] = {}
    signatures: dict[Signature, int] = {}
    events = np.zeros(len(calls) + len(one.steps), EVENT)
    for event, call in zip(events, calls, strict=False):
        issued = call.issued or call.begin
        event["kind"], event["flags"] = Kind.CALL, ASYNC
        event["operation"] = kinds.index(call.kind)
        event["group"] = groups.setdefault(call.group, len(groups))
        event["peer"], event["bytes"] = call.peer, call.nbytes
        if call.site is not None:
            event["site"] = sites.setdefault(call.site, len(sites) + 1)
        if call.shapes:
            signature = Signature(call.dtype, call.shapes, contiguous=True)
            event["signature"] = signatures.setdefault(signature, len(signatures) + 1)
        event["issued"] = event["returned"] = issued
        event["ended"] = max(call.end, issued) if call.done else 0
    for event, step in zip(events[len(calls) :], one.steps, strict=True):
        event["kind"] = Kind.STEP
        event["issued"] = event["ended"] = step.end
    begin = one.extent[0]
    return ProcessLog(
        host=one.host,
        pid=0,
        command=(trace.name,),
        rank=one.rank,
        world_size=trace.world_size,
        threads=None,
        clock_ns=begin,
        wall_ns=begin,
        ended=all(call.done for call in calls),
        events=events[np.argsort(events["issued"], kind="stable")],
        groups={number: group for group, number in groups.items()},
        sites={number: site for site, number in sites.items()},
        signatures={number: signature for signature, number in signatures.items()},
    )
