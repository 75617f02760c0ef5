"""Models by files: TOML, and Hugging Face's config.json."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steptime.errors import UsageError
from steptime.workloads.models import Transformer, model_named, model_names
from steptime.workloads.models.family import families

CONFIGS = Path(__file__).parent / "configs"
SMALL = {"layers": 2, "hidden": 64, "heads": 4, "context": 128, "vocabulary": 256}
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "max_position_embeddings": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 100,
}

ODD = """
from steptime.workloads.models.family import Family
from steptime.workloads.models.transformer import Architecture

ODD = Architecture(learned_positions=False)

def _odd(config):
    sizes = {"layers": 2, "hidden": 64, "heads": 4, "context": 128, "vocabulary": 256}
    return sizes | {"architecture": ODD}

FAMILY = Family(architecture=ODD, model_types={"odd": _odd})
"""


def toml(folder, text, name="mine.toml"):
    path = folder / name
    path.write_text(text)
    return path


def small(**more):
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in (SMALL | more).items())


def config(folder, **changes):
    found = {key: value for key, value in (CONFIG | changes).items() if value != "absent"}
    path = folder / "config.json"
    path.write_text(json.dumps(found))
    return path


@pytest.mark.parametrize(
    # the totals that the safetensors index of each model's page on Hugging Face has, but for
    # DeepSeek-V3, whose page has the 671 B of README_WEIGHTS.md and one layer more. From gpt-oss
    # on those of transformers 4.57.6, which builds each of these configurations on the meta device,
    # with the bias of routers, a buffer there: to those that the pages have it is equal, too, but
    # for GLM-4.5's, which have one layer more
    ("file", "parameters"),
    [
        ("gpt2-xl", 1_557_611_200),
        ("Llama-3.1-405B", 405_853_388_800),
        ("Llama-3.2-1B", 1_235_814_400),
        ("Mistral-7B-v0.1", 7_241_732_096),
        ("Mixtral-8x7B-v0.1", 46_702_792_704),
        ("Qwen2.5-7B", 7_615_616_512),
        ("Qwen1.5-MoE-A2.7B", 14_315_784_192),
        ("Qwen3-0.6B", 596_049_920),
        ("Qwen3-235B-A22B", 235_093_634_560),
        ("DeepSeek-V2-Lite", 15_706_484_224),
        ("DeepSeek-V2", 235_741_434_880),
        ("DeepSeek-V3", 671_026_419_200),
        ("gpt-oss-20b", 20_914_757_184),
        ("gpt-oss-120b", 116_829_156_672),
        ("gemma-7b", 8_537_680_896),
        ("gemma-2-2b", 2_614_341_888),
        ("gemma-3-1b-pt", 999_885_952),
        ("OLMo-2-1124-7B", 7_298_617_344),
        ("Olmo-3-1025-7B", 7_298_011_136),
        ("Phi-3-mini-4k-instruct", 3_821_079_552),
        ("SmolLM3-3B", 3_075_098_624),
        ("granite-3.1-8b-base", 8_170_835_968),
        ("Seed-OSS-36B", 36_151_104_512),
        ("GLM-4.5-Air", 106_852_251_264),
        ("Kimi-K2-Base", 1_026_408_232_448),
        ("pythia-6.9b", 6_857_302_016),
    ],
)
def test_a_configuration_has_as_many_parameters_as_published(file, parameters):
    model = model_named(str(CONFIGS / f"{file}.json"))
    assert model.name == file
    assert model.parameters == parameters


@pytest.mark.parametrize(
    ("file", "preset"),
    [
        ("gpt2-xl", "gpt2-1.5B"),
        ("Llama-3.1-405B", "llama3.1-405B"),
        ("Mistral-7B-v0.1", "mistral-7B"),
        ("Mixtral-8x7B-v0.1", "mixtral-8x7B"),
        ("Qwen2.5-7B", "qwen2.5-7B"),
        ("Qwen3-0.6B", "qwen3-0.6B"),
        ("Qwen3-235B-A22B", "qwen3-235B"),
        ("DeepSeek-V3", "deepseek-v3"),
        ("gpt-oss-20b", "gpt-oss-20B"),
        ("gpt-oss-120b", "gpt-oss-120B"),
        ("GLM-4.5-Air", "glm-4.5-air"),
        ("Kimi-K2-Base", "kimi-k2"),
    ],
)
def test_a_configuration_is_the_preset_of_that_model(file, preset):
    ours, theirs = model_named(preset), model_named(str(CONFIGS / f"{file}.json"))
    assert theirs.dimensions == ours.dimensions
    assert theirs.architecture == ours.architecture
    assert theirs.flops_per_token() == ours.flops_per_token()


def test_there_is_a_configuration_here_of_every_type_that_is_read():
    types = {json.loads(file.read_text())["model_type"] for file in CONFIGS.iterdir()}
    assert types == {kind for family in families().values() for kind in family.model_types}


def test_a_folder_stands_for_the_configuration_in_it(tmp_path):
    folder = tmp_path / "My-Llama"
    folder.mkdir()
    config(folder)
    assert model_named(str(folder)).name == "My-Llama"
    assert model_named(folder / "config.json") == model_named(f"{folder}/config.json")
    with pytest.raises(UsageError, match=r"cannot read the model file .*/config.json"):
        model_named(str(tmp_path))


def test_a_name_of_the_hub_is_no_file_here():
    with pytest.raises(UsageError, match=r"no file or folder meta-llama/Llama-3.1-8B.* nothing is"):
        model_named("meta-llama/Llama-3.1-8B")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"hidden_size": "absent"}, "config.json: hidden_size is missing"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size is '64': it must be a whole number, 1 or more"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is -1"),
        ({"num_hidden_layers": 10**7}, "10,000,000 layers of 1 MLPs"),
        (
            {
                "model_type": "mixtral",
                "num_hidden_layers": 2000,
                "num_local_experts": 1000,
                "num_experts_per_tok": 2,
            },
            "2,000 layers of 1,000 MLPs",
        ),
        ({"vocab_size": 10**400}, "vocab_size is 1000.*: it must be at most"),
        ({"num_attention_heads": 5}, "config.json: 5 heads do not divide the hidden size 64"),
        ({"num_key_value_heads": 3}, "3 key heads do not divide the heads 4"),
        ({"model_type": "absent"}, "model_type is missing"),
        ({"model_type": "qwen-2"}, "'qwen-2', .* did you mean qwen2?"),
        (
            {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}},
            "'gemma3', whose layers are not known here: save what its text_config holds",
        ),
        ({"model_type": "mamba"}, "'mamba', .* known are deepseek_v2, .*llama"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no': it must be true or false"),
        ({"model_type": "mixtral", "num_local_experts": 8}, "num_experts_per_tok is missing"),
        (
            {"model_type": "mistral", "sliding_window": 8, "layer_types": ["sliding_attention", 0]},
            "layer_types is not one of sliding_attention and full_attention for each of 2 layers",
        ),
    ],
)
def test_a_configuration_that_makes_no_model_is_refused(changes, why, tmp_path):
    with pytest.raises(UsageError, match=why):
        model_named(config(tmp_path, **changes))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no JSON"),
        ("[1]", "Expected `object`, got `array`"),
        ('{"a":' + "[" * 100_000, "is nested too deeply"),
        ("1" * 5000, "Number out of range"),
    ],
)
def test_what_is_no_configuration_is_refused(text, why, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=why):
        model_named(path)


def test_heads_may_be_wider_or_narrower_than_a_share_of_the_hidden_size(tmp_path):
    wide = model_named(config(tmp_path, head_dim=32))
    shapes = {tensor.name: tensor.shape for tensor in wide.units[1].tensors}
    assert shapes["blocks.0.attention.q.weight"] == (128, 64)
    assert shapes["blocks.0.attention.proj.weight"] == (64, 128)
    assert wide.units[1].parts[0].attending == 4 * 128


def test_biases_of_attention_are_counted_where_a_configuration_has_them(tmp_path):
    plain = model_named(config(tmp_path)).parameters
    assert model_named(config(tmp_path, attention_bias=True)).parameters - plain == 2 * 4 * 64
    of_qwen = model_named(config(tmp_path, model_type="qwen2")).parameters
    assert of_qwen - plain == 2 * 3 * 64


@pytest.mark.parametrize(
    ("name", "window", "whole"),
    [  # as the models' reports tell it
        ("gpt-oss-20b", 128, [n for n in range(24) if n % 2]),
        ("gemma-2-2b", 4096, [n for n in range(26) if n % 2]),
        ("gemma-3-1b-pt", 512, [5, 11, 17, 23]),
        ("Olmo-3-1025-7B", 4096, [3, 7, 11, 15, 19, 23, 27, 31]),
        ("Phi-3-mini-4k-instruct", 2047, []),
        ("SmolLM3-3B", 0, []),
    ],
)
def test_some_layers_have_a_window_and_others_none(name, window, whole):
    model = model_named(str(CONFIGS / f"{name}.json"))
    assert (model.window, list(model.whole_layers)) == (window, whole)
    row, scores = model.context, [unit.parts[0] for unit in model.units[1:-1]]
    for number, part in enumerate(scores):
        seen = min(window, row) if window and number not in whole else row
        assert part.score_flops(row) == 4 * model.heads * model.query_width * seen
    assert model.windowed == pytest.approx(1 - len(whole) / model.layers if window else 0)


def test_a_pattern_of_layers_is_that_of_its_list(tmp_path):
    """As configurations had it before they listed their layers."""
    sizes = {"num_hidden_layers": 7, "sliding_window": 8}
    listed = ["sliding_attention", "full_attention"]
    for kind, every in (("gemma2", 2), ("gpt_oss", 2), ("olmo3", 4), ("gemma3_text", 6)):
        experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
        short = model_named(config(tmp_path, model_type=kind, **sizes, **experts))
        types = [listed[(n + 1) % every == 0] for n in range(7)]
        named = config(tmp_path, model_type=kind, layer_types=types, **sizes, **experts)
        assert model_named(named) == short
        assert short.whole_layers == tuple(n for n in range(7) if (n + 1) % every == 0)


def test_of_fewer_or_more_layers_as_many_have_a_window():
    assert model_named("gpt-oss-20B").with_layers(36).whole_layers == tuple(range(1, 36, 2))
    model = model_named("gpt-oss-20B").with_layers(5)
    assert (model.layers, model.whole_layers) == (5, (1, 3))
    assert [unit.parts[0].window for unit in model.units[1:-1]] == [128, 0, 128, 0, 128]


@pytest.mark.parametrize(
    ("changes", "window"),
    [
        ({}, 0),
        ({"use_sliding_window": True}, 8),
        ({"use_sliding_window": True, "max_window_layers": 2}, 0),
        ({"use_sliding_window": True, "layer_types": ["full_attention"] * 2}, 0),
        ({"use_sliding_window": True, "max_window_layers": 1}, 8),
    ],
)
def test_qwen_has_a_window_only_where_it_is_switched_on(changes, window, tmp_path):
    path = config(tmp_path, model_type="qwen2", sliding_window=8, **changes)
    assert model_named(path).window == window


def test_a_window_spares_scores_alone():
    mistral, llama = model_named("mistral-7B"), model_named("llama3-8B")
    attention = mistral.units[1].parts[0]
    assert attention.parameters == llama.units[1].parts[0].parameters
    assert attention.score_flops(4096) == 4 * 4096 * 4096
    assert attention.score_flops(32768) == attention.score_flops(4096)
    assert attention.score_flops(100) == 4 * 4096 * 100


def test_a_model_of_toml_is_that_of_its_dimensions(tmp_path):
    path = toml(tmp_path, 'family = "gpt2"\n' + small())
    assert model_named(path) == model_named(str(path))
    expected = Transformer(name="mine", source=str(path), **SMALL)
    assert model_named(path) == expected


def test_a_file_may_depart_from_its_family(tmp_path):
    text = 'family = "llama"\n' + small(tied=True, inner=96, experts=4, top_k=2, shared_inner=32)
    model = model_named(toml(tmp_path, text))
    attention = 4 * 64 * 64
    mlp = 3 * 64 * (4 * 96 + 32) + 4 * 64
    assert model.parameters == 256 * 64 + 2 * (attention + mlp + 2 * 64) + 64
    assert model.active_parameters == model.parameters - 2 * 2 * 3 * 64 * 96


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("family = ", "mine.toml: it is no TOML"),
        (small(), "family is missing"),
        ('family = "lama"\n' + small(), "family is 'lama': did you mean llama"),
        ('family = "gpt2"\n' + small(layer=2), "layer is not known here: did you mean 'layers'?"),
        ('family = "gpt2"\n' + small(layers=0), "layers is 0: it must be a whole number"),
        ('family = "gpt2"\n' + small(heads=5), "mine.toml: 5 heads do not divide"),
        ('family = "gpt2"\n' + small(tied=1), "tied is 1: it must be true or false"),
        ('family = "gpt2"\n' + small(top_k=2), "sends a token through 2 of 1 experts"),
        ('family = "gpt2"\n' + small(dense_layers=1), "has no experts: leave out its dense_layers"),
        ('family = "llama"\n' + small(experts=2, dense_layers=3), "one MLP in 3 of 2 layers"),
        (
            'family = "llama"\n' + small() + "\n[latent]\nkv_rank = 8",
            "latent.nope_width is missing",
        ),
        (
            'family = "llama"\n'
            + small(kv_heads=2)
            + "\n[latent]\nkv_rank = 8\nnope_width = 4\nrope_width = 2\nvalue_width = 4",
            "leave out head_width and kv_heads",
        ),
        (
            'family = "llama"\n' + small(whole_layers=[0]),
            "mine.toml: mine has layers that attend to all of the row and no window",
        ),
        (
            'family = "llama"\n' + small(window=8, whole_layers=[1, 0]),
            "the whole_layers of mine must be numbers from 0 to 1, each once, in their order",
        ),
        (
            'family = "llama"\n' + small(window=8, whole_layers=[2]),
            "must be numbers from 0 to 1",
        ),
        (
            'family = "llama"\n' + small(window=8, whole_layers=[True]),
            "whole_layers is \\[True\\]: it must be a list of numbers of layers",
        ),
        ("models = 3", "models must be a table of tables"),
        ("[models.a]\n[models.b]", "has 2 models: write one in a file"),
        ("[models.a]\nalso = 3", "also is 3: it must be a list of names"),
    ],
)
def test_a_file_that_makes_no_model_is_refused(text, why, tmp_path):
    with pytest.raises(UsageError, match=why):
        model_named(toml(tmp_path, text))


def answer_of_copy(folder, code):
    """What code prints with the copy of the package in ``folder``."""
    done = subprocess.run(
        [sys.executable, "-c", f"from steptime.workloads.models import *; {code}"],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return done.stdout.split()


@pytest.fixture
def models_of_copy(tmp_path):
    """The folder of models in a copy of the package, which lies in ``tmp_path``."""
    copied = shutil.copytree(Path(sys.modules["steptime"].__file__).parent, tmp_path / "steptime")
    return copied / "workloads" / "models"


def test_a_preset_is_a_data_file_that_is_found_by_itself(models_of_copy, tmp_path):
    text = f'family = "llama"\n{small()}\n[models."a-3B"]\n[models."a-7B"]\nlayers = 5\n'
    toml(models_of_copy / "presets", text, "a.toml")
    *names, layers = answer_of_copy(tmp_path, "print(*model_names(), model_named('a-7B').layers)")
    assert names == ["a-3B", "a-7B", *model_names()]
    assert layers == "5"


def test_a_family_is_a_file_that_is_found_by_itself(models_of_copy, tmp_path):
    """Files of its models, and configurations of its type, may then name it."""
    (models_of_copy / "families" / "odd.py").write_text(ODD)
    own = toml(tmp_path, 'family = "odd"\n' + small())
    other = config(tmp_path, model_type="odd")
    code = f"print(*(model_named(f).parameters for f in ({str(own)!r}, {str(other)!r})))"
    without_positions = Transformer(name="x", **SMALL).parameters - 128 * 64
    assert answer_of_copy(tmp_path, code) == [f"{without_positions}"] * 2


@pytest.mark.parametrize("word", ["llama-3-70b", "LLAMA3-70B", "llama3_70b", "llama3-70B "])
def test_a_mistyped_name_is_answered_with_the_nearest(word):
    with pytest.raises(UsageError, match="did you mean llama3-70B"):
        model_named(word)
