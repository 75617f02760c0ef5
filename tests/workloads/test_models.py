from dataclasses import replace

import pytest

from steptime.errors import UsageError
from steptime.train.config import SIZES
from steptime.train.options import ModelOptions
from steptime.workloads.models import Transformer, model_named, model_names


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gpt2-nano", 842_496),
        ("gpt2-124M", 124_439_808),
        ("gpt2-355M", 354_823_168),
        ("gpt2-774M", 774_030_080),
        ("gpt2-1558M", 1_557_611_200),
    ],
)
def test_gpt2_has_as_many_parameters_as_published(name, parameters):
    assert model_named(name).parameters == parameters


@pytest.mark.parametrize(
    ("name", "billions", "within"),
    [
        # table 2.1 of the GPT-3 paper gives two or three digits
        ("gpt3-125M", 0.125, 0.005),
        ("gpt3-350M", 0.350, 0.02),
        ("gpt3-760M", 0.760, 0.005),
        ("gpt3-1.3B", 1.3, 0.015),
        ("gpt3-2.7B", 2.7, 0.02),
        ("gpt3-6.7B", 6.7, 0.007),
        ("gpt3-13B", 13.0, 0.012),
        ("gpt3-175B", 174.6, 0.0001),
    ],
)
def test_gpt3_has_as_many_parameters_as_published(name, billions, within):
    assert model_named(name).parameters == pytest.approx(billions * 1e9, rel=within)


@pytest.mark.parametrize("size", SIZES)
def test_parameters_and_flops_are_those_that_training_counts(size):
    named, config = model_named(size), ModelOptions(name=size).config(50257)
    padded = replace(named, vocabulary=50257).padded()
    assert config.name == size
    assert config.padded().parameters == padded.parameters
    assert config.padded().flops_per_token() == padded.flops_per_token()
    assert named.vocabulary == (256 if size in SIZES[:2] else 50257)


def test_flops_are_those_of_the_published_formula():
    """72·B·L·s·h²·(1 + s/6h + V/12hL) for an iteration (arXiv 2205.05198), without the biases."""
    model = model_named("gpt3-175B")
    L, h, s, V = model.layers, model.hidden, model.context, model.vocabulary
    published = 72 * L * h**2 * (1 + s / (6 * h) + V / (12 * h * L))
    assert model.flops_per_token() == pytest.approx(published, rel=2e-4)


@pytest.mark.parametrize(
    # forward of 16 rows at the peak of a B200, 2.25 PFLOP/s (DLNetBench), in µs
    ("name", "published"),
    [("gpt2-774M", 11_682.31), ("gpt2-1558M", 23_765.49)],
)
def test_blocks_take_as_many_flops_as_published(name, published):
    model = model_named(name)
    _, *blocks, _ = model.units
    flops = 16 * 1024 * sum(block.forward_flops(1024) for block in blocks)
    assert flops / 2.25e15 == pytest.approx(1e-6 * published, rel=1e-3)  # biases and norms


def test_shorter_rows_attend_to_less():
    model = model_named("gpt2")
    saved = model.flops_per_token(1024) - model.flops_per_token(24)
    assert saved == 12 * model.layers * model.hidden * 1000


def test_a_model_goes_by_the_names_that_it_is_known_by():
    assert model_named("gpt2") == model_named("gpt2-124M")
    assert model_named("gpt2-1.5B") == model_named("gpt2-1558M")
    with pytest.raises(UsageError, match=r"no model 'gpt4'.*did you mean gpt\?"):
        model_named("gpt4")
    with pytest.raises(UsageError, match=r"no model 'nanotron'.*gpt2-124M.*gpt3-175B"):
        model_named("nanotron")
    assert len({model_named(name) for name in model_names()}) == len(model_names()) >= 12


def test_dimensions_that_make_no_model_are_refused():
    sizes = {"name": "x", "layers": 1, "hidden": 64, "heads": 4, "context": 8, "vocabulary": 9}
    with pytest.raises(UsageError, match="x has 0 layers"):
        Transformer(**sizes | {"layers": 0})
    with pytest.raises(UsageError, match="5 heads do not divide the hidden size 64 of x"):
        Transformer(**sizes | {"heads": 5})
    with pytest.raises(UsageError, match="context is 9 and x has positions for 1 to 8"):
        Transformer(**sizes).row(9)
