"""``steptime.train``: a training of a notebook is that of the verb, and goes on as it does."""

from dataclasses import fields
from pathlib import Path

import pytest

import steptime as st
from steptime.errors import UsageError
from steptime.train.options import (
    DataOptions,
    ModelOptions,
    RunOptions,
    TrainingOptions,
    TrainOptions,
)
from steptime.train.parallel.options import ParallelOptions


@pytest.mark.slow
def test_it_goes_on_where_it_stopped_to_the_same_loss(tmp_path: Path) -> None:
    shared = {"ranks": 2, "pipeline": 2, "batch": 4, "precision": "fp32", "log": False}
    whole = st.train(steps=4, lr_warmup=2, lr_schedule="constant", **shared)
    kept = {"out": tmp_path / "run", "checkpoint_every": 2, "resume": "auto"}
    shared |= {"lr_warmup": 2, "lr_schedule": "constant"}
    half = st.train(steps=2, **shared, **kept)
    assert [one["step"] for one in half.record.validation][-1] == 2
    rest = st.train(steps=4, **shared, **kept)
    assert rest.record.val_loss == whole.record.val_loss != half.record.val_loss
    again = st.train(steps=4, **shared, **kept)  # which has no step left to train
    assert again.record.val_loss == rest.record.val_loss
    assert again.record.environment == rest.record.environment


def test_its_options_are_those_of_the_verb() -> None:
    groups = (ModelOptions, DataOptions, TrainOptions, ParallelOptions, RunOptions)
    names = {field.name for group in groups for field in fields(group)} - {"name", "model"}
    assert names == set(TrainingOptions.__annotations__)


def test_what_cannot_be_trained_starts_no_rank(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--batch 3 does not divide"):
        st.train(ranks=2, batch=3)
    with pytest.raises(UsageError, match="name it with out"):
        st.train(checkpoint_every=2)
    with pytest.raises(UsageError, match="no option 'batches'"):
        st.train(batches=3)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="No such file"):
        st.train(data=str(tmp_path / "absent.txt"))
