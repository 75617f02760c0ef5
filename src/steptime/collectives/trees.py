"""Binary trees over ranks, and blocks that move up and down them in a pipeline."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from steptime.arrays import Longs
from steptime.collectives.schedule import Round, send


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree over all ranks: ``parent`` of each one, shape (ranks,), the root its own parent."""

    parent: Longs

    @cached_property
    def depth(self) -> Longs:
        """The depth of each rank, in edges below the root, shape (ranks,)."""
        depth = np.zeros_like(self.parent)
        above = np.arange(self.parent.size)
        while (self.parent[above] != above).any():
            depth += self.parent[above] != above
            above = self.parent[above]
        return depth

    @cached_property
    def height(self) -> int:
        """The depth of the deepest leaf."""
        return int(self.depth.max())

    def relabelled(self, ranks: Longs) -> "Tree":
        """The same tree with ``ranks[i]`` in place of rank i."""
        parent = np.empty_like(self.parent)
        parent[ranks] = ranks[self.parent]
        return Tree(parent)

    def fed_by(self, root: int) -> "Tree":
        """A tree over one rank more: ``root`` above the old root; the old ranks follow ``root``."""
        size = self.parent.size
        others = (root + 1 + np.arange(size)) % (size + 1)
        parent = np.full(size + 1, root)
        below = self.depth > 0
        parent[others[below]] = others[self.parent[below]]
        return Tree(parent)


def binary_tree(ranks: int) -> Tree:
    """A binary tree of depth ⌈log₂ ranks⌉, in the order of the ranks: the odd ones are leaves.

    Rank 0 is the root and has one child. The parent of r, whose lowest bit is b, is (r - b) | 2b,
    or r - b where that is no rank (NCCL, src/graph/trees.cc, ncclGetBtree).
    """
    rank = np.arange(ranks)
    low = rank & -rank
    above = (rank - low) | (2 * low)
    return Tree(np.where(above < ranks, above, rank - low))


def two_trees(ranks: int) -> tuple[Tree, Tree]:
    """Two binary trees such that no rank but, of an odd number, rank 0 is interior in both.

    The second is the first mirrored, or of an odd number of ranks rotated by one (NCCL,
    src/graph/trees.cc, ncclGetDtree; after Sanders, Speck and Träff, "Two-tree algorithms for full
    bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009).
    """
    tree, rank = binary_tree(ranks), np.arange(ranks)
    other = (rank + 1) % ranks if ranks % 2 else ranks - 1 - rank
    return tree, tree.relabelled(other)


def up(tree: Tree, step: int, first: int, blocks: int) -> Round:
    """Step ``step`` of the pipeline that reduces ``blocks`` slots from ``first`` on to the root.

    In every step each rank sends its parent the block that its children's last arrived in; the last
    block reaches the root in step ``height + blocks - 2``.
    """
    return _moving(tree, step - tree.height + tree.depth, first, blocks, reduce=True)


def down(tree: Tree, step: int, first: int, blocks: int) -> Round:
    """Step ``step`` of the pipeline that copies ``blocks`` slots from ``first`` on from the root.

    The last block reaches the deepest leaf in step ``height + blocks - 2``.
    """
    return _moving(tree, step + 1 - tree.depth, first, blocks, reduce=False)


def _moving(tree: Tree, block: Longs, first: int, blocks: int, *, reduce: bool) -> Round:
    """Transfers of the given block of each rank below the root, along the edge to its parent."""
    rank = np.flatnonzero((tree.depth > 0) & (block >= 0) & (block < blocks))
    parent, slot = tree.parent[rank], first + block[rank]
    if reduce:
        return send(rank, parent, slot, reduce=True)
    return send(parent, rank, slot)
