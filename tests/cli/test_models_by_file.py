"""Models by their files, in every verb that takes a model."""

import json
from pathlib import Path

import pytest
from command import here

CONFIGS = Path(__file__).parent.parent / "workloads" / "configs"
MINE = """
family = "llama"
layers = 4
hidden = 256
heads = 8
kv_heads = 2
inner = 512
context = 64
vocabulary = 1000
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.toml").write_text(MINE)
    return "mine.toml"


def test_a_model_of_a_file_is_described(tmp_path: Path) -> None:
    config = str(CONFIGS / "DeepSeek-V3.json")
    told = here("proxy", "describe", config, "--json", folder=tmp_path).json["model"]
    assert told["name"] == "DeepSeek-V3"
    assert (told["parameters"], told["active_parameters"]) == (671_026_419_200, 37_552_297_472)
    assert told["dimensions"]["kv_rank"] == 512
    assert [row["alike"] for row in told["layers"]] == [1, 3, 58, 1]
    text = here("proxy", "describe", config, folder=tmp_path).out
    assert "block 3 … block 60" in text


def test_a_file_is_planned_as_the_preset_of_the_same_dimensions(tmp_path: Path) -> None:
    words = ("--ranks", "64", "--tensor", "4", "--expert", "8", "--tokens", "4096", "--dry-run")
    config = str(CONFIGS / "Qwen3-235B-A22B.json")
    found, known = (
        here("proxy", model, *words, "--json", folder=tmp_path).json
        for model in (config, "qwen3-235B-A22B")
    )
    assert (found["model"], known["model"]) == ("Qwen3-235B-A22B", "qwen3-235B-A22B")
    for field in ("per_rank", "model_memory", "placement"):
        assert found[field] == known[field]


def test_a_model_of_toml_is_simulated(mine: str, tmp_path: Path) -> None:
    words = ("--cluster", "laptop", "--batch", "8", "--strategy", "overlapped", "--out", "run")
    told = here("simulate", mine, *words, "--json", folder=tmp_path).json
    assert told["model"] == "mine"
    assert told["model_config"]["parameters"] == 2 * 1000 * 256 + 256 + 4 * 557_568
    assert told["strategies"]["overlapped"]["step_time_s"]["median"] > 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["model"] == "mine"


def test_a_folder_of_a_model_is_no_folder_of_traces(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "config.json").write_text((CONFIGS / "Qwen3-0.6B.json").read_text())
    words = ("--cluster", "dgx-h100", "--tokens", "128", "--strategy", "replicated", "--json")
    told = here("simulate", "./small", *words, "--out", "run", folder=tmp_path).json
    assert told["model"] == "small"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("proxy", "describe", "LLAMA3-70b"), "did you mean llama3-70B?"),
        (("simulate", "llama-3-70b", "--cluster", "laptop"), "did you mean llama3-70B?"),
        (("simulate", "no.toml", "--cluster", "laptop"), "cannot read the model file no.toml: No"),
        (("proxy", "org/model", "--dry-run"), "there is no file or folder org/model"),
        (("proxy", "describe", "wrong.json"), "wrong.json: hidden_size is missing"),
    ],
    ids=lambda words: words if isinstance(words, str) else " ".join(words),
)
def test_a_model_that_is_none_is_refused_in_a_sentence(
    words: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    wrong = {"model_type": "llama", "num_hidden_layers": 2}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    ended = here(*words, folder=tmp_path)
    assert ended.code == 2
    assert sentence in ended.err
    assert len(ended.err.splitlines()) == 1
