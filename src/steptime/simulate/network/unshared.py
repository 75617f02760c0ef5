"""Collectives whose messages never share a link: their times, round by round, without events."""

from typing import NamedTuple

import numpy as np

from steptime.arrays import Floats


class Progress(NamedTuple):
    """The times that ranks and links have reached.

    ``entered``: when each rank entered its round; ``leaving``: when it will be done with its
    messages, -1 before the first; ``busy``: the seconds that it will reduce then; shape (ranks,).
    ``until``: until when each link is in use, shape (links,).
    """

    entered: Floats
    leaving: Floats
    busy: Floats
    until: Floats


def at_first(entered: Floats, links: int) -> Progress:
    """The Progress when ranks enter their first rounds."""
    ranks = entered.size
    return Progress(entered.copy(), np.full(ranks, -1.0), np.zeros(ranks), np.zeros(links))
