"""Lines: messages between the stages of a pipeline, as ``Send`` and ``Recv`` of a Program."""

import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from steptime.program import PIPELINE
from steptime.timeline import Recorder
from steptime.train.parallel.axes import form_axes
from steptime.workloads.mesh import Mesh
from steptime.world.communicator import Communicator, Work

_TAGS = 3  # activations, their gradients, and those of the tied table


@dataclass(frozen=True, eq=False)
class Lines:
    """The stages that hold what this rank's neighbours in the model hold.

    ``comms``: by tag and by whether a message goes to a stage of a higher number. NCCL runs the
    messages between two ranks in the order of their calls, which differs on both ends: there every
    kind and direction has a group of its own. Elsewhere one group serves all, with tags.

    Where ranks take all cores, the threads of gloo that pass a message on get none until the
    scheduler's next tick, milliseconds later, unless the core is offered to them once it is posted.
    """

    comms: Mapping[tuple[int, bool], Communicator]
    sent: deque[tuple[Work, Tensor]] = field(default_factory=deque)

    def send(self, tensor: Tensor, by: int, tag: int) -> Work:
        """Begin to send to the stage ``by`` places further; the axis wraps around."""
        comm = self.comms[tag, True]
        peer = (comm.rank + by) % comm.ranks
        return self.comms[tag, peer > comm.rank].send(tensor, peer, tag)

    def post(self, tensor: Tensor, by: int, tag: int) -> None:
        """The same, keeping what is sent until it is gone, at the latest until ``flush``."""
        while self.sent and self.sent[0][0].known_done:
            self.sent.popleft()
        self.sent.append((self.send(tensor, by, tag), tensor))
        os.sched_yield()

    def receive(self, tensor: Tensor, by: int, tag: int) -> Work:
        """Begin to receive from the stage ``by`` places further."""
        comm = self.comms[tag, True]
        peer = (comm.rank + by) % comm.ranks
        work = self.comms[tag, peer < comm.rank].receive(tensor, peer, tag)
        os.sched_yield()
        return work

    def flush(self) -> None:
        """Block until all that was posted is sent."""
        while self.sent:
            self.sent.popleft()[0].wait()


def form_lines(mesh: Mesh, recorder: Recorder | None, *, nccl: bool) -> Lines:
    """The lines of this rank; all ranks of the world call it. Without a pipeline there are none."""
    if mesh.pipeline == 1:
        return Lines({})

    def group() -> Communicator:
        comm = form_axes(mesh, [(PIPELINE,)], recorder).comm(PIPELINE)
        assert comm  # noqa: S101 - there are several stages
        return comm

    one = None if nccl else group()
    ways = [(tag, up) for tag in range(_TAGS) for up in (True, False)]
    return Lines({way: one or group() for way in ways})
