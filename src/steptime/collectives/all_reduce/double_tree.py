"""The pipelined double binary tree all_reduce."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, together
from steptime.collectives.trees import down, two_trees, up


@algorithm("all_reduce", chunks=lambda blocks: 2 * blocks)
def double_tree(ranks: int, blocks: int) -> Iterator[Round]:
    """Each half of the vector, in blocks, is reduced up one of two binary trees and copied down it.

    2⌈log₂p⌉ + blocks - 1 rounds; a rank sends at most 2S bytes, since who is interior in one tree
    is a leaf in the other (Sanders, Speck and Träff 2009; trees as in NCCL, src/graph/trees.cc).
    """
    left, right = two_trees(ranks)
    for step in range(2 * left.height + blocks - 1):
        yield together(
            up(left, step, 0, blocks),
            up(right, step, blocks, blocks),
            down(left, step - left.height, 0, blocks),
            down(right, step - right.height, blocks, blocks),
        )
