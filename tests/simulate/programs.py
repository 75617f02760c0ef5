"""Small programs for tests, and looking up what happened to their ops."""

import numpy as np

from steptime.program import Collective, Compute, Program, Recv, Send
from steptime.timeline import Phase


def program(*lists, class_of=None, **axes):
    """Lists of ops of ranks that are laid out along axes, by default of one class."""
    ranks = int(np.prod(list(axes.values())))
    classes = np.zeros(ranks) if class_of is None else np.array(class_of)
    return Program(name="step", axes=axes, lists=lists, class_of=classes.astype(np.int32))


def compute(name, seconds, *after, phase=Phase.COMPUTE, stream="compute"):
    return Compute(name=name, seconds=seconds, after=after, phase=phase, stream=stream)


def collective(name, kind, nbytes, *after, algorithm="", group=("data",), stream="comm", root=0):
    return Collective(
        name=name,
        kind=kind,
        nbytes=nbytes,
        after=after,
        algorithm=algorithm,
        group=group,
        stream=stream,
        root=root,
    )


def send(name, nbytes, *after, by=1, axis="data", stream="comm", tag=0):
    return Send(name=name, axis=axis, by=by, nbytes=nbytes, after=after, stream=stream, tag=tag)


def recv(name, nbytes, *after, by=-1, axis="data", stream="comm", tag=0):
    return Recv(name=name, axis=axis, by=by, nbytes=nbytes, after=after, stream=stream, tag=tag)


def one_forward_one_backward(stages, micro_batches, forward=1.0, backward=1.0):
    """A pipeline whose messages have no bytes: PipeDream-Flush, each way of moving on a stream."""
    lists = []
    for stage in range(stages):
        ops = []

        def run(way, number, stage=stage, ops=ops):
            ahead = way == "forward"
            first, last = (0, stages - 1) if ahead else (stages - 1, 0)
            by, tag, after = (1 if ahead else -1), int(ahead), ()
            both = {"axis": "pipeline", "tag": tag}
            if stage != first:
                ops.append(recv(f"receive {way} {number}", 0, by=-by, stream=f"in {way}", **both))
                after = (len(ops) - 1,)
            ops.append(compute(f"{way} {number}", forward if ahead else backward, *after))
            if stage != last:
                after = len(ops) - 1
                name = f"send {way} {number}"
                ops.append(send(name, 0, after, by=by, stream=f"out {way}", **both))

        warm_up = min(stages - 1 - stage, micro_batches)
        for number in range(warm_up):
            run("forward", number)
        for number in range(micro_batches):
            if number + warm_up < micro_batches:
                run("forward", number + warm_up)
            run("backward", number)
        lists.append(tuple(ops))
    return program(*lists, class_of=range(stages), pipeline=stages)


def interval(simulation, name, rank=0, step=0):
    """From when to when an op ran, in seconds."""
    rows = simulation.timeline.intervals
    number = simulation.timeline.names.index(name)
    found = rows[(rows["name"] == number) & (rows["rank"] == rank) & (rows["step"] == step)]
    (row,) = found
    return float(row["start"]), float(row["end"])
