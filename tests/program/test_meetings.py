"""Who makes calls together, told by class of ranks and, from it, op by op."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from steptime.cluster import cluster_named
from steptime.program import Collective, Program, Recv, Send, match_calls
from steptime.program.message_ends import message_ends
from steptime.simulate.prepare import prepare
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import model_named

AXES = {"a": 2, "b": 3, "c": 1}
RANKS = 6


def there(rank, axis, by):
    """The rank ``by`` places further along an axis."""
    place = list(np.unravel_index(rank, tuple(AXES.values()), order="F"))
    at = list(AXES).index(axis)
    place[at] = (place[at] + by) % AXES[axis]
    return int(np.ravel_multi_index(place, tuple(AXES.values()), order="F"))


@given(
    st.lists(
        st.tuples(
            st.integers(0, RANKS - 1),
            st.sampled_from(list(AXES)),
            st.integers(-4, 4),  # both ways round, often more than once, and to the rank itself
            st.integers(0, 2),
        ),
        max_size=30,
    )
)
def test_every_message_meets_its_own_receive(messages):
    """Each rank is a class of its own, and each message has bytes of its own."""
    lists = [[] for _ in range(RANKS)]
    for number, (rank, axis, by, tag) in enumerate(messages):
        about = {"axis": axis, "nbytes": number, "tag": tag}
        lists[rank].append(Send(name="s", by=by, **about))
        lists[there(rank, axis, by)].append(Recv(name="r", by=-by, **about))
    one = Program(
        name="p",
        axes=AXES,
        lists=tuple(map(tuple, lists)),
        class_of=np.arange(RANKS, dtype=np.int32),
    )
    found = match_calls(one)
    for instance, call in enumerate(found.call):
        rank, axis, by, _ = messages[found.calls[call].nbytes]
        ends = found.members[found.first[instance] : found.first[instance + 1]].tolist()
        assert ends == [rank, there(rank, axis, by)]
    parts = np.concatenate([np.zeros(0), *([op.nbytes for op in ops] for ops in lists)])
    nbytes = np.array([call.nbytes for call in found.calls], np.int64)
    assert (nbytes[found.call[found.instance]] == parts).all()
    for end in message_ends(one, found):
        assert lists[end["src"]][end["send"]].nbytes == end["bytes"]
        assert lists[end["dst"]][end["recv"]].nbytes == end["bytes"]


def test_the_ends_of_messages_among_some_ranks_are_those_of_all_between_them():
    one = hybrid(model_named("gpt2-124M"), data=2, pipeline=4, micro_batches=3)
    found = match_calls(one)
    every = message_ends(one, found)
    some = np.array([0, 2, 4, 5])
    between = np.isin(every["src"], some) & np.isin(every["dst"], some)
    assert 0 < between.sum() < every.size
    assert (message_ends(one, found, some) == every[between]).all()


def test_what_a_group_calls_in_a_step_is_counted_as_its_instances():
    first = [Collective(name="r", kind="all_reduce", group=("a",), nbytes=n) for n in (8, 8, 4)]
    later = [Collective(name="r", kind="all_reduce", group=("a",), nbytes=n) for n in (8, 4, 4)]
    one = Program(
        name="p",
        axes={"a": 2, "b": 2},
        lists=(tuple(first), tuple(later)),
        class_of=np.array([0, 0, 1, 1], np.int32),
    )
    found = match_calls(one)
    assert [made.times.tolist() for made in found.callers] == [[2, 1], [1, 2]]
    for made, when in zip(found.callers, found.instances, strict=True):
        assert made.groups.tolist() == [[0, 1], [2, 3]]
        assert np.bincount(when.group).tolist() == made.times.tolist()


def test_fidelity_collective_keeps_nothing_for_the_ops_of_every_rank():
    one = hybrid(model_named("gpt2-124M"), data=128, micro_batches=2)
    prepared = prepare(one, cluster_named("h100-16384"), fidelity="collective")
    kept = vars(prepared.matching)
    assert {"_parts", "parts_of", "instances"}.isdisjoint(kept)
    roles = [role for meeting in prepared.matching.meetings for role in meeting.roles]
    assert {role.group.size for role in roles} == {128}
