"""Routes: the messages of a group, each on the lane of its direction, peer and tag."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import torch

from steptime.backend import requests
from steptime.backend.host import HostGroup
from steptime.backend.host.mail import EAGER_BYTES
from steptime.backend.lanes import Crew, Lane
from steptime.backend.operations import try_send
from steptime.backend.work import DONE, Done

if TYPE_CHECKING:
    from torch import Tensor

    from steptime.backend.engine import Engine
    from steptime.backend.host import Call
    from steptime.backend.host._kernel import Route
    from steptime.backend.requests import Names
    from steptime.world.compat import Work

_LOOK_AT_MESSAGES_S = 1e-3  # more than most of those take that somebody waits for
_MOST = 256  # lanes, from which on those at rest are forgotten: tags may be many

_Way = tuple[Literal["send", "recv"], int | None, int]
"""Messages of one direction, peer and tag arrive in the order in which they are sent."""


class Routes:
    """The messages of one member of a group.

    ``out`` and ``back`` send and receive brief messages past all this, by peer and tag, once the
    first of a route has come by here; they return False, having done nothing, where one takes more.
    """

    def __init__(self, engine: Engine, names: Names) -> None:
        self._engine = engine
        self._names = names
        self._mail = engine.mail if isinstance(engine, HostGroup) and engine.kernel else None
        self.crew = Crew(_LOOK_AT_MESSAGES_S)
        self.lanes: dict[_Way, Lane] = {}
        self.out: dict[tuple[int, int], Route] = {}
        self.back: dict[tuple[int, int], Route] = {}

    def send(self, tensors: list[Tensor], peer: int, tag: int) -> Work:
        """Send the only tensor to a rank of the group, or begin to."""
        (tensor,) = tensors
        lane = self._lane_of("send", peer, tag)
        operation, arguments = requests.send(self._names, tensor, peer, tag)
        if (begun := self._offer(lane, *arguments)) is not None:
            return begun
        sent = lane.attempt(try_send, self._engine, *arguments)
        if sent is True:
            return DONE
        if sent:
            return lane.start(tensors, sent)
        return lane.start(tensors, operation, self._engine, *arguments)

    def receive(self, tensors: list[Tensor], peer: int, tag: int, done: Done) -> Work:
        """Receive into the only tensor from a rank of the group; returns ``done`` if it is."""
        (tensor,) = tensors
        lane = self._lane_of("recv", peer, tag)
        operation, arguments = requests.recv(self._names, tensor, peer, tag)
        mail = self._mail
        if mail is None or not _is_plain(tensor):
            return lane.start(tensors, operation, self._engine, *arguments)
        if lane.is_clear():
            # An early receive is no time to look for the message, for then others come late.
            patient = lane.is_awaited_at_once and tensor.nbytes > EAGER_BYTES
            try:
                if mail.try_recv(*arguments, patient=patient):
                    return done
            except BaseException as error:
                lane.keep(error)
                raise
        return lane.start(tensors, mail.receive, mail.expect(*arguments))

    def receive_any(self, tensors: list[Tensor], tag: int) -> Work:
        """Receive into the only tensor from whichever rank sends first."""
        (tensor,) = tensors
        operation, arguments = requests.recv(self._names, tensor, None, tag)
        return self._lane_of("recv", None, tag).start(tensors, operation, self._engine, *arguments)

    def _offer(self, lane: Lane, call: Call, tensor: Tensor, peer: int, tag: int) -> Work | None:
        """Begin to send a large message, on a lane that is clear; None where that takes more."""
        mail = self._mail
        if mail is None or call.bytes <= EAGER_BYTES or not (_is_plain(tensor) and lane.is_clear()):
            return None
        lane.crew.latest = 0
        # Another thread's call of this lane may begin now. Neither of the two came first.
        try:
            number = mail.offer(call, tensor, peer, tag)
        except BaseException as error:
            lane.keep(error)
            raise
        if not number:
            return None
        rests = partial(mail.rests, peer, number)
        return lane.start((tensor,), mail.finish, call, peer, tag, number, rests=rests)

    def _lane_of(self, *way: *_Way) -> Lane:
        return self.lanes.get(way) or self._new_lane(*way)

    def _new_lane(self, *way: *_Way) -> Lane:
        direction, peer, tag = way
        brief = {"send": self.out, "recv": self.back}[direction]
        if len(self.lanes) >= _MOST:
            self._forget()
        lane = self.lanes[way] = Lane("the messages of a group", self.crew, hurried=False)
        if self._mail is not None and peer is not None and 0 <= tag < requests.TAGS:
            brief[peer, tag] = self._mail.route(direction, peer, tag, lane)
        return lane

    def _forget(self) -> None:
        """Forget the lanes at rest."""
        for direction, peer, tag in [way for way, lane in self.lanes.items() if lane.at_rest]:
            del self.lanes[direction, peer, tag]
            if peer is not None:
                {"send": self.out, "recv": self.back}[direction].pop((peer, tag), None)


def _is_plain(tensor: Tensor) -> bool:
    """Whether the elements of a tensor on the CPU are what lies at its address, in their order."""
    plain = tensor.layout is torch.strided and tensor.is_contiguous()
    return plain and not (tensor.is_neg() or tensor.is_complex())
