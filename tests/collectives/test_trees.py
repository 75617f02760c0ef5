import numpy as np
import pytest

from steptime.collectives.trees import binary_tree, two_trees

SIZES = (*range(2, 34), 64, 100, 127, 128, 129, 1000)


def children(tree):
    rank = np.arange(tree.parent.size)
    return np.bincount(tree.parent[tree.parent != rank], minlength=rank.size)


@pytest.mark.parametrize("ranks", SIZES)
def test_both_trees_span_all_ranks_at_the_least_depth(ranks):
    for tree in two_trees(ranks):
        assert (tree.parent == np.arange(ranks)).sum() == 1  # one root
        assert tree.height == (ranks - 1).bit_length()
        assert children(tree).max() <= 2
        above = np.arange(ranks)
        for _ in range(tree.height):
            above = tree.parent[above]
        assert np.unique(above).size == 1  # all reach it


@pytest.mark.parametrize("ranks", SIZES)
def test_who_is_interior_in_one_tree_is_a_leaf_in_the_other(ranks):
    left, right = two_trees(ranks)
    both = np.flatnonzero((children(left) > 0) & (children(right) > 0))
    assert both.tolist() == ([0] if ranks % 2 else [])


def test_the_trees_of_nccl():
    # The drawing above ncclGetBtree in src/graph/trees.cc, for 14 ranks.
    tree = binary_tree(14)
    assert tree.parent.tolist() == [0, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12]


def test_one_rank_is_a_root_and_a_leaf():
    assert [tree.parent.tolist() for tree in two_trees(1)] == [[0], [0]]
    assert binary_tree(1).height == 0


def test_a_root_above_a_tree_of_the_others():
    assert binary_tree(3).parent.tolist() == [0, 2, 0]
    tree = binary_tree(3).fed_by(2)  # over ranks 3, 0 and 1
    assert tree.parent.tolist() == [1, 3, 2, 2]
    assert tree.height == 3
