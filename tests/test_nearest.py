import pytest

from steptime.nearest import did_you_mean, nearest_name

MODELS = ("gpt2-124M", "gpt3-175B", "llama3-8B", "llama3-70B", "mixtral-8x7B")


@pytest.mark.parametrize("word", ["llama-3-70b", "LLAMA3-70B", "llama3_70b", "lama3-70B"])
def test_capitals_and_punctuation_do_not_count(word):
    assert did_you_mean(word, MODELS) == "did you mean llama3-70B?"


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("ringg", ("tree", "ring"), "ring"),
        ("allreduce", ("all_gather", "all_reduce"), "all_reduce"),
        ("DGX-H100", ("dgx-a100", "dgx-h100", "dgx-h100-pod"), "dgx-h100"),
        ("gpt3-175b", MODELS, "gpt3-175B"),
        ("mixtral", MODELS, "mixtral-8x7B"),
        ("llama", MODELS, "llama3-8B"),
    ],
)
def test_the_nearest_known_name_is_meant(word, known, meant):
    assert nearest_name(word, known) == meant


@pytest.mark.parametrize("word", ["gpt4", "resnet", "", "-", "🦙"])
def test_nothing_is_said_where_nothing_is_near(word):
    assert did_you_mean(word, MODELS) == ""


def test_nothing_is_near_to_nothing_known():
    assert did_you_mean("ring", ()) == ""
