"""The pipelined binary tree reduce."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round
from steptime.collectives.trees import binary_tree, up


@algorithm("reduce", chunks=lambda blocks: blocks)
def tree(ranks: int, root: int, blocks: int) -> Iterator[Round]:
    """The vector goes up a binary tree in blocks: each rank adds its children's and passes on.

    ⌈log₂p⌉ + blocks - 1 rounds, in which a rank sends S/blocks and may receive twice as much (the
    tree of NCCL, src/graph/trees.cc).
    """
    binary = binary_tree(ranks).relabelled((root + np.arange(ranks)) % ranks)
    for step in range(binary.height + blocks - 1):
        yield up(binary, step, 0, blocks)
