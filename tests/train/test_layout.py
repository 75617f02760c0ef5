from hypothesis import given
from hypothesis import strategies as st

from steptime.strategies import Span, live_strategies
from steptime.train.layout import plan_layout

TENSORS = [("wte", (64, 8)), ("a", (24, 8)), ("b", (24,)), ("c", (8, 32)), ("d", (8,))]
SIZE = 64 * 8 + 24 * 8 + 24 + 8 * 32 + 8

tensors = st.lists(
    st.tuples(st.text(min_size=1), st.lists(st.integers(1, 40), min_size=1, max_size=2).map(tuple)),
    min_size=1,
    max_size=12,
)


@given(tensors, st.integers(1, 9), st.none() | st.integers(1, 3000))
def test_every_layout_holds_each_tensor_once_and_can_be_shared(shapes, ranks, bucket):
    layout = plan_layout(shapes, ranks, bucket)
    assert [slot.name for slot in layout.slots] == [name for name, _ in shapes]
    previous, offset = 0, 0
    for slot, (_, shape) in zip(layout.slots, shapes, strict=True):
        assert slot.shape == shape
        assert slot.span.start >= previous
        assert slot.offset == offset
        home = layout.buckets[layout.bucket_of(slot)]
        assert home.start <= slot.span.start
        assert slot.span.stop <= home.stop
        previous, offset = slot.span.stop, offset + len(slot.span)
    assert layout.buckets[0].start == 0
    for left, right in zip(layout.buckets, layout.buckets[1:], strict=False):
        assert left.stop == right.start
    for span in layout.buckets:
        assert len(span) % (16 * ranks) == 0


@given(st.integers(1, 9), st.none() | st.integers(1, 3000))
def test_every_element_of_a_bucket_is_updated_by_some_rank(ranks, bucket):
    layout = plan_layout(TENSORS, ranks, bucket)
    for strategy in live_strategies().values():
        for span in layout.buckets:
            owners = [strategy.owned(span, rank, ranks) for rank in range(ranks)]
            owned = {i for owner in owners for i in range(owner.start, owner.stop)}
            assert owned == set(range(span.start, span.stop)), strategy.name


def test_without_a_bucket_size_there_is_one_bucket():
    assert len(plan_layout(TENSORS, 4, None).buckets) == 1


def test_buckets_fill_from_the_end_and_never_cut_a_tensor():
    layout = plan_layout(TENSORS, 1, 200)
    names = [[slot.name for slot, _ in layout.slots_in(span)] for span in layout.buckets]
    assert names == [["wte"], ["a", "b"], ["c", "d"]]


def test_a_small_model_still_gets_several_buckets():
    assert len(plan_layout(TENSORS, 1, 10**9).buckets) > 1


def test_spans():
    span = Span(10, 30)
    assert len(span) == 20
    assert [span.share(i, 4) for i in range(4)] == [
        Span(10, 15), Span(15, 20), Span(20, 25), Span(25, 30)
    ]  # fmt: skip
    assert span.overlap(Span(25, 90)) == Span(25, 30)
    assert len(span.overlap(Span(40, 50))) == 0
