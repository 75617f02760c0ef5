from pathlib import Path

import pytest

from steptime.errors import UsageError
from steptime.train.config import gpt2, suitable_learning_rate
from steptime.train.options import ModelOptions, TrainOptions

GEMMA = str(Path(__file__).parents[1] / "workloads" / "configs" / "gemma-7b.json")


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
    assert config.padded().parameters == parameters
    assert config.name == f"gpt2-{name}"


def test_other_dimensions_are_named_by_them_and_get_the_rate_of_the_nearest_size():
    config = gpt2(layers=11, heads=4, hidden=800, context=8, vocabulary=9)
    assert config.name == "gpt2-11×800"
    assert suitable_learning_rate(config) == 6e-4


def test_a_batch_that_ranks_do_not_divide_is_refused_with_the_nearest_that_they_do():
    with pytest.raises(UsageError, match=r"--batch 10 .* 4 ranks .* nearest that does is 8"):
        TrainOptions(batch=10).rows_per_micro_batch(4)


def test_a_row_is_no_longer_than_the_positions_of_the_model():
    options = ModelOptions(tokens=64)
    assert options.row(options.config(256)) == 64
    with pytest.raises(UsageError, match="--tokens is 64: the model has positions for 1 to 8"):
        options.row(gpt2(layers=1, heads=1, hidden=1, context=8, vocabulary=9))


def test_a_model_goes_by_the_name_that_it_has_everywhere(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'family = "gpt2"\nlayers = 2\nhidden = 64\nheads = 2\ncontext = 32\nvocabulary = 9\n'
    )
    found = {
        words: ModelOptions(name=words[0], model=words[1]).config(256).name
        for words in [
            (None, None),
            (None, "micro"),
            ("gpt2", None),
            ("gpt2", "nano"),
            ("gpt2-124M", None),
            ("gpt2-350M", None),
            (str(path), None),
        ]
    }
    assert list(found.values()) == [
        "gpt2-nano",
        "gpt2-micro",
        "gpt2-124M",
        "gpt2-nano",
        "gpt2-124M",
        "gpt2-355M",
        "gpt2-2×64",
    ]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"name": "gpt2-124M", "model": "nano"}, "gpt2-124M and --model nano are two models"),
        ({"name": "deepseek-v3"}, "'deepseek-v3' cannot be trained here"),
        ({"name": GEMMA}, "another activation, factors or positions"),
        ({"name": "resnet50"}, "'resnet50' cannot be trained here"),
        ({"name": "gpt5"}, "there is no model 'gpt5'"),
        ({"model": "gpt5"}, "there is no model 'gpt5'; choose one of nano, micro, 124M"),
    ],
)
def test_what_cannot_be_trained_is_refused(given, sentence):
    with pytest.raises(UsageError) as refused:
        ModelOptions(**given)
    assert sentence in str(refused.value)
