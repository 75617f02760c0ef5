"""Batches of messages: as many rounds, ranks and bytes as the schedule has, in arrays alike."""

import numpy as np
import pytest

from steptime.collectives import algorithm_named, schedule
from steptime.collectives.price import price
from steptime.simulate.network import rounds
from steptime.simulate.network.rounds import Reader


@pytest.mark.parametrize("most", [7, 1 << 13])
@pytest.mark.parametrize("name", ["ring", "recursive_doubling", "double_tree"])
def test_batches_hold_every_message_once(name, most, monkeypatch) -> None:
    monkeypatch.setattr(rounds, "BATCH", most)
    one = schedule(algorithm_named("all_reduce", name), 8)
    batches = list(Reader(inside=False).batches(one, 80_000))
    assert [batch.last for batch in batches] == [False] * (len(batches) - 1) + [True]
    for batch in batches:
        assert batch.ranks.shape == (2, batch.round.size)
        assert batch.round.shape == batch.nbytes.shape == batch.reduced.shape
    sent, summed = np.zeros(8), np.zeros(8)
    for batch in batches:
        np.add.at(sent, batch.ranks[0], batch.nbytes)
        np.add.at(summed, batch.ranks[1], batch.reduced)
    priced = price(one, 80_000)
    assert sent.tolist() == priced.bytes_sent.tolist()
    assert summed.tolist() == priced.bytes_reduced.tolist()
    every = np.concatenate([batch.round for batch in batches])
    assert every.size == priced.messages_sent.sum()
    assert np.unique(every).tolist() == list(range(priced.rounds))
