"""A model in the terminal and as JSON."""

import io
import json

import pytest
from rich.console import Console

from steptime.report.model import layers, print_model, print_models, record, records
from steptime.workloads.models import model_named, model_names


def printed(show, *arguments):
    console = Console(file=io.StringIO(), width=80, no_color=True)
    show(console, *arguments)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…\n" not in text  # nothing is cut off
    return text


def test_all_models_are_listed_with_their_parameters():
    text = printed(print_models)
    assert all(name in text for name in model_names())
    assert "70,553,706,496" in text
    assert "8.18 GFLOP" in text  # ResNet-50, two for each multiply-add


@pytest.mark.parametrize("name", model_names())
def test_a_model_fits_a_terminal_and_counts_what_it_has(name):
    model = model_named(name)
    assert f"{model.parameters:,}" in printed(print_model, model)


def test_alike_layers_are_folded_and_experts_told_apart():
    text = printed(print_model, model_named("mixtral-8x7B"))
    assert "block 0 … block 31" in text
    assert "of which a token meets 12,879,925,248" in text
    assert "arXiv 2401.04088" in text


@pytest.mark.parametrize("name", ["gpt2-124M", "llama3-8B", "resnet50", "cosmoflow", "dlrm"])
def test_the_layers_of_a_record_add_up_to_its_model(name):
    model = model_named(name)
    found = json.loads(json.dumps(record(model)))
    rows = found["layers"]
    for field in ("parameters", "forward_flops", "backward_flops"):
        assert sum(row["alike"] * row[field] for row in rows) == pytest.approx(found[field])
    assert sum(row["alike"] for row in rows) == len(model.units)
    assert found["gradient_bytes"] == {"fp32": 4 * model.parameters, "bf16": 2 * model.parameters}
    assert found["source"] == "computed"


def test_layers_of_other_shapes_are_not_folded():
    names = [row.name for row in layers(model_named("resnet50"))]
    assert names[:4] == ["stem", "layer1.0", "layer1.1 … layer1.2", "layer2.0"]
    assert len(layers(model_named("gpt2-124M"))) == 3


def test_a_list_of_records_has_all_models():
    assert [one["name"] for one in records()] == list(model_names())
