import pytest

from steptime.errors import UsageError
from steptime.train.config import GPT2Config, name_of, suitable_learning_rate
from steptime.train.options import ModelOptions, TrainOptions


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("124M", 124_475_904),
        ("355M", 354_871_296),
        ("774M", 774_090_240),
        ("1558M", 1_557_686_400),
    ],
)
def test_parameters_with_the_padded_vocabulary_are_the_published_ones(name, parameters):
    config = ModelOptions(model=name).config(50257)
    assert config.parameters == parameters
    assert name_of(config) == f"gpt2-{name}"


def test_other_dimensions_are_named_by_them_and_get_the_rate_of_the_nearest_size():
    config = GPT2Config(layers=11, heads=4, embd=800, context=8, vocabulary=9)
    assert name_of(config) == "gpt2-11×800"
    assert suitable_learning_rate(config) == 6e-4


def test_a_batch_that_ranks_do_not_divide_is_refused_with_the_nearest_that_they_do():
    with pytest.raises(UsageError, match=r"--batch 10 .* 4 ranks .* nearest that does is 8"):
        TrainOptions(batch=10).rows_per_micro_batch(4)


def test_a_row_is_no_longer_than_the_positions_of_the_model():
    options = ModelOptions(context=64)
    assert options.row(options.config(256)) == 64
    with pytest.raises(UsageError, match="--context is 64: the model has positions for 1 to 8"):
        options.row(GPT2Config(layers=1, heads=1, embd=1, context=8, vocabulary=9))
