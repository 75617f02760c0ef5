"""Tensors as vectors, and vectors as the parts of one."""

import torch

from steptime.backend.flatten import joined, parts


def test_parts_of_a_vector_are_joined_to_what_they_were() -> None:
    vector = torch.arange(10.0)
    whole = joined(parts(vector[1:8], [3, 4]))
    assert whole is not None
    assert whole.tolist() == vector[1:8].tolist()
    whole.zero_()
    assert vector.tolist() == [0.0] * 8 + [8.0, 9.0]


def test_vectors_that_are_not_the_parts_of_one_are_not_joined() -> None:
    vector = torch.arange(10.0)
    first, second, third = parts(vector, [3, 3, 4])
    assert joined([first, third]) is None
    assert joined([second, first]) is None
    assert joined([first, first]) is None
    assert joined([first, second.view(torch.int32)]) is None
    assert joined([first, torch.empty(0)]) is None
    assert joined([vector, torch.arange(10.0)]) is None
