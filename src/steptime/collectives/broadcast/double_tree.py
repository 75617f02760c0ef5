"""The pipelined double binary tree broadcast."""

from collections.abc import Iterator

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, together
from steptime.collectives.trees import down, two_trees


@algorithm("broadcast", chunks=lambda blocks: 2 * blocks)
def double_tree(ranks: int, root: int, blocks: int) -> Iterator[Round]:
    """The root feeds half the vector, in blocks, to each of two binary trees of the other ranks.

    ⌈log₂(p - 1)⌉ + blocks rounds; no rank sends more than S bytes, since who is interior in
    one tree is a leaf in the other. An interior rank sends to both children in one round, without
    the colouring of the paper (Sanders, Speck and Träff 2009; trees as in NCCL, trees.cc).
    """
    if ranks == 1:
        return
    left, right = (tree.fed_by(root) for tree in two_trees(ranks - 1))
    for step in range(left.height + blocks - 1):
        yield together(down(left, step, 0, blocks), down(right, step, blocks, blocks))
