from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from steptime.errors import UsageError
from steptime.train.data import Batches, check_data, check_length, validation_batches
from steptime.train.options import DataOptions
from steptime.train.shards import write_token_shard
from steptime.train.tokens import Tokens, load_tokens


def tokens_of(train, validation=(1000,)):
    """Arrays of these lengths, each token of which is found nowhere else."""
    edges = np.cumsum([0, *train, *validation])
    parts = [np.arange(a, b, dtype=np.uint32) for a, b in pairwise(edges)]
    return Tokens(
        train=tuple(parts[: len(train)]),
        validation=tuple(parts[len(train) :]),
        vocabulary=int(edges[-1]),
        source="numbers",
    )


@st.composite
def worlds(draw):
    """Tokens in one or several arrays, a row length, a number of ranks and a batch they share."""
    context = draw(st.integers(1, 9))
    ranks = draw(st.integers(1, 6))
    batch = ranks * draw(st.integers(1, 4))
    arrays = draw(st.lists(st.integers(0, 200), min_size=1, max_size=4))
    assume(sum(max(0, n - 1) // context for n in arrays) >= batch)
    return tokens_of(arrays), context, ranks, batch


def all_ranks(tokens, context, batch, ranks, seed=0):
    return [Batches(tokens, context, batch, rank, ranks, seed) for rank in range(ranks)]


def stacked(batches):
    inputs, targets = zip(*batches, strict=True)
    return np.concatenate(inputs), np.concatenate(targets)


@given(worlds(), st.integers(0, 2**63), st.integers(0, 100))
def test_ranks_together_hold_the_batch_of_one_process(world, seed, step):
    tokens, context, ranks, batch = world
    whole = Batches(tokens, context, batch, 0, 1, seed).at(step)
    parts = [ranked.at(step) for ranked in all_ranks(tokens, context, batch, ranks, seed)]
    assert {part.shape for pair in parts for part in pair} == {(batch // ranks, context)}
    for whole_half, parts_half in zip(whole, stacked(parts), strict=True):
        assert whole_half.dtype == np.int64
        np.testing.assert_array_equal(whole_half, parts_half)


@given(worlds(), st.integers(0, 3))
def test_an_epoch_has_every_window_at_most_once_and_all_that_fill_batches(world, epoch):
    tokens, context, _, batch = world
    batches = Batches(tokens, context, batch, 0, 1, seed=1)
    steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
    inputs, targets = stacked([batches.at(step) for step in steps])
    windows = {
        int(array[start])
        for array in tokens.train
        for start in range(0, len(array) - context, context)
    }
    drawn = inputs[:, 0].tolist()
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= windows
    assert len(windows) - len(drawn) < batch
    np.testing.assert_array_equal(inputs, inputs[:, :1] + np.arange(context))
    np.testing.assert_array_equal(targets, inputs + 1)


def test_the_rows_left_out_differ_between_epochs():
    batches = Batches(tokens_of([8 * 11 + 1]), 8, 4, 0, 1, seed=0)
    assert batches.steps_per_epoch == 2
    drawn = [set(stacked([batches.at(2 * e), batches.at(2 * e + 1)])[0][:, 0]) for e in range(20)]
    assert len(set.union(*map(set, drawn))) == 11


def test_order_depends_on_seed_and_epoch_and_on_nothing_else():
    tokens = tokens_of([8 * 64 + 1])

    def epoch(number, seed=0, batch=16):
        batches = Batches(tokens, 8, batch, 0, 1, seed)
        first = number * batches.steps_per_epoch
        steps = range(first, first + batches.steps_per_epoch)
        return stacked([batches.at(s) for s in steps])[0][:, 0].tolist()

    assert epoch(0) == epoch(0) == epoch(0, batch=4) == epoch(0, batch=64)
    assert epoch(0) != epoch(1)
    assert epoch(0) != epoch(0, seed=1)
    assert epoch(0) != sorted(epoch(0))
    assert epoch(1) != epoch(0, seed=1)


def test_any_step_can_be_asked_for_first():
    tokens = tokens_of([2000])
    replayed = Batches(tokens, 8, 16, 1, 4, seed=3)
    walked = [replayed.at(step) for step in range(40)]
    for step in (39, 0, 17):
        for a, b in zip(walked[step], Batches(tokens, 8, 16, 1, 4, seed=3).at(step), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_run_that_goes_on_sees_the_same_batches_on_any_number_of_ranks():
    tokens = tokens_of([3000, 7, 500, 2001])

    def rows(steps, ranks):
        every = all_ranks(tokens, 16, 12, ranks, seed=5)
        return [stacked([batches.at(step) for batches in every]) for step in steps]

    # 28 steps an epoch: the run stops within the first one and within the second
    whole = rows(range(70), 4)
    parts = rows(range(13), 4) + rows(range(13, 40), 6) + rows(range(40, 70), 1)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a, b)


def test_rows_are_the_caller_s_own():
    tokens = tokens_of([2000])
    batches = Batches(tokens, 8, 4, 0, 1, seed=0)
    inputs, targets = batches.at(0)
    expected = targets.copy()
    inputs[:] = 0
    np.testing.assert_array_equal(targets, expected)
    assert tokens.train[0][0] == 0
    assert tokens.train[0][1] == 1


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=3),
    st.integers(1, 9),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_validation_is_the_first_windows_in_order(arrays, context, ranks, rows, steps):
    windows = sum(max(0, n - 1) // context for n in arrays)
    assume(windows >= ranks)
    batch = ranks * rows
    tokens = tokens_of([1000], arrays)

    def run(rank):
        batches = validation_batches(
            tokens, context=context, batch=batch, rank=rank, ranks=ranks, steps=steps
        )
        return list(batches)

    per_rank = [run(rank) for rank in range(ranks)]
    assert len({tuple(x.shape for x, _ in batches) for batches in per_rank}) == 1
    inputs, targets = stacked([part for step in zip(*per_rank, strict=True) for part in step])
    firsts = [int(a[s]) for a in tokens.validation for s in range(0, len(a) - context, context)]
    assert inputs[:, 0].tolist() == firsts[: len(inputs)]
    if windows >= batch:
        assert len(inputs) == min(steps, windows // batch) * batch
    else:
        assert windows - ranks < len(inputs) <= windows
    np.testing.assert_array_equal(targets, inputs + 1)


def test_exactly_enough_is_enough():
    check_length(tokens_of([8 * 4 + 1], [2 * 4 + 1]), context=4, batch=8, ranks=2)


def test_too_little_to_train_on_says_how_much_there_is_and_how_much_it_takes():
    tokens = tokens_of([8 * 4])
    with pytest.raises(UsageError, match=r"numbers.* 32 training .*batch needs 8 \(33 tokens\)"):
        Batches(tokens, 4, 8, 0, 1, seed=0)


def test_too_little_to_validate_on_says_so_too():
    tokens = tokens_of([1000], [8])
    with pytest.raises(UsageError, match=r"its 8 validation tokens.*2 ranks.*\(9 tokens\)"):
        validation_batches(tokens, context=4, batch=8, rank=0, ranks=2, steps=1)


def check(data, context=4, batch=8, ranks=2, **options):
    check_data(DataOptions(data=data, **options), context=context, batch=batch, ranks=ranks)


def test_sound_data_passes(tmp_path):
    text = tmp_path / "story.txt"
    text.write_text("once upon a time\n" * 40)
    write_token_shard(tmp_path / "x.bin", np.arange(400, dtype=np.uint16))
    check(None)
    check(text)
    check(text, tokenizer="bpe", vocabulary=300)
    check(tmp_path / "x.bin")
    check(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        ("a.txt", b"", "holds no text"),
        ("a.txt", b"once\xff", "not UTF-8 text at byte 4"),
        ("a.txt", b"once upon", "its 10 training tokens"),
        ("a.txt", b"o" * 100, "its 6 validation tokens"),
        ("a.bin", b"", "holds no tokens"),
        ("a.bin", b"\1\0\2\0", "its 2 training tokens"),
        ("a.bin", (20240326).to_bytes(4, "little") + bytes(2000), "magic is 20240326"),
        ("a.bin", np.full(400, 60000, "<u2").tobytes(), "holds the id 60000"),
    ],
)
def test_bad_data_is_refused_by_name(tmp_path, name, content, wrong):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=wrong) as error:
        check(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_ids_are_checked_in_every_shard(tmp_path):
    write_token_shard(tmp_path / "a.bin", np.arange(400, dtype=np.uint16))
    write_token_shard(tmp_path / "b.bin", np.arange(400, dtype=np.uint16))
    write_token_shard(tmp_path / "c.bin", np.full(400, 50257, np.uint16))
    with pytest.raises(UsageError, match=r"c\.bin .* id 50257"):
        check(tmp_path)


def test_text_too_short_for_bpe_is_counted_in_bpe(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("ab" * 12)
    with pytest.raises(UsageError, match=r"24 B of text, is too short: its (\d) training") as error:
        check(path, tokenizer="bpe", vocabulary=300)
    assert "its 24" not in str(error.value)


def test_text_that_only_tokenising_shows_too_short_is_refused_then(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("ab" * 400)
    options = DataOptions(data=path, tokenizer="bpe", vocabulary=300)
    with pytest.raises(UsageError, match=r"a\.txt.* is too short"):
        Batches(load_tokens(options), 4, 8, 0, 2, seed=0)


def test_tokenizer_is_checked_for_text_and_ignored_for_shards(tmp_path):
    write_token_shard(tmp_path / "x.bin", np.arange(400, dtype=np.uint16))
    check(tmp_path / "x.bin", tokenizer="bpe", vocabulary=5)
    with pytest.raises(UsageError, match="--vocabulary is 5"):
        check(None, tokenizer="bpe", vocabulary=5)
