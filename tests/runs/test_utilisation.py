"""What a step uses of its devices: MFU by its formula, HFU, rates, and what is not known."""

import re
from dataclasses import replace

import pytest

from steptime.cluster import cluster_named
from steptime.cluster.device_files import device_names
from steptime.cluster.known_gpus import gpu_named
from steptime.report.utilisation import UNKNOWN, expected_sentence, used_lines
from steptime.runs.expected import expected_of
from steptime.runs.figures import promised
from steptime.runs.utilisation import StepWork, Utilisation, formula_of, step_work, utilisation
from steptime.workloads.models import Transformer, model_by_dimensions
from steptime.workloads.models.named import model_named, model_names
from steptime.workloads.resolve import model_of, resolved
from steptime.workloads.spec import StepSpec

GPT = StepSpec(
    model="gpt",
    layers=24,
    hidden=2304,
    heads=24,
    vocabulary=51200,
    tokens=2048,
    ranks=32,
    batch=512,
)
A100 = cluster_named("dgx-a100-pod")
MODELS = [model_named(name) for name in model_names()]
TRANSFORMERS = [model for model in MODELS if isinstance(model, Transformer)]


def work(spec: StepSpec) -> StepWork:
    model = model_of(spec)
    found = step_work(model, resolved(spec, model, A100), A100.device)
    assert found is not None
    return found


def used(spec: StepSpec, seconds: float) -> Utilisation:
    found = utilisation(work(spec), seconds)
    assert found is not None
    return found


def test_model_flops_are_those_of_the_published_formula() -> None:
    layers, h, s, vocabulary, batch = 24, 2304, 2048, 51200, 512
    formula = 72 * batch * layers * s * h**2 * (1 + s / (6 * h) + vocabulary / (12 * h * layers))
    assert work(GPT).model_flops == pytest.approx(formula, rel=1e-3)  # biases and norms beside


def test_a_published_step_has_its_published_rate() -> None:
    # SC'21, table 1: 1.7 B on 32 A100, 137 TFLOP/s of 96·B·s·L·h²·(…): what is recomputed counts.
    hardware = replace(GPT, recompute="full", batch=512)
    flops = work(hardware).hardware_flops
    h, s, layers, vocabulary = 2304, 2048, 24, 51200
    formula = 96 * 512 * s * layers * h**2 * (1 + s / (6 * h) + vocabulary / (16 * layers * h))
    assert flops == pytest.approx(formula, rel=1e-3)
    found = used(hardware, flops / (32 * 137e12))
    assert found.hfu == pytest.approx(137 / 312)
    assert found.mfu is not None
    assert found.mfu < 0.8 * 137 / 312


def test_selective_recomputation_computes_the_scores_again() -> None:
    none, selective = work(GPT), work(replace(GPT, recompute="selective"))
    scores = 4 * 24 * 2304 * 2048  # FLOP of a token in forward
    assert selective.model_flops == none.model_flops == none.hardware_flops
    assert selective.hardware_flops - none.hardware_flops == pytest.approx(none.tokens * scores)


def test_rates_are_those_of_a_device() -> None:
    found = used(GPT, 2.0)
    assert found.tokens_per_s_per_device == pytest.approx(512 * 2048 / 2 / 32)
    assert found.tflops_per_device == pytest.approx(found.work.model_flops / 64e12)
    assert found.mfu == pytest.approx(found.tflops_per_device / 312)


def test_without_a_peak_there_is_no_mfu_and_without_tokens_nothing() -> None:
    model = model_of(GPT)
    found = utilisation(step_work(model, resolved(GPT, model), None), 1.0)
    assert found is not None
    assert (found.mfu, found.hfu) == (None, None)
    assert [*used_lines(found, None, "measured")] == [
        f"No MFU, for the peak of the devices here is not known: "
        f"{found.tflops_per_device:.0f} TFLOP/s of the model and 32,768 tokens/s a device."
    ]
    images = StepSpec(model="resnet50", ranks=8)
    assert step_work(model_of(images), resolved(images, model_of(images)), A100.device) is None
    assert utilisation(None, 1.0) is None


def test_the_peak_is_that_of_the_precision() -> None:
    h100, model = cluster_named("dgx-h100"), model_of(GPT)
    spec = resolved(replace(GPT, ranks=8, precision="fp8"), model, h100)
    found = step_work(model, spec, h100.device)
    assert found is not None
    assert found.peak_flops == 1979e12


def test_json_has_what_was_promised_beside_the_time() -> None:
    rates = {"mfu": 0.4, "hfu": 0.5, "tflops_per_device": 100.0, "tokens_per_s_per_device": 5.0}
    row = {"source": "simulated", "utilisation": rates}
    assert promised(row) == {
        **row,
        "mfu": 0.4,
        "tflops_per_device": 100.0,
        "tokens_per_s_per_device": 5.0,
        "expected_error": None,
    }
    assert promised({**row, "expected": {"error": 0.1}})["expected_error"] == 0.1
    assert "expected_error" not in promised({**row, "source": "measured"})
    assert promised({"source": "simulated"}) == {"source": "simulated"}


def test_a_step_at_the_estimate_is_as_sure_as_that_and_one_far_from_it_is_not() -> None:
    h100, asked = cluster_named("dgx-h100"), replace(GPT, model="llama", ffn=8192, batch=None)
    asked = replace(asked, hidden=2048, heads=16, vocabulary=131072, tokens=4096, ranks=8, zero=1)
    model = model_of(asked)
    spec = resolved(asked, model, h100)
    far = expected_of(model, spec, h100, 1e3)
    assert far is not None
    assert far.rows >= 5
    near = expected_of(model, spec, h100, far.estimate_s)
    assert near is not None
    assert near.error == pytest.approx(near.of_estimate)
    half = expected_of(model, spec, h100, far.estimate_s / 2)
    assert half is not None
    assert half.error >= 0.5
    assert f"Expected error {100 * near.error:.0f} %" in expected_sentence(near)


def test_where_no_measured_step_is_near_it_is_said() -> None:
    laptop, model = cluster_named("laptop"), model_of(GPT)
    spec = resolved(replace(GPT, ranks=4), model, laptop)
    assert expected_of(model, spec, laptop, 1.0) is None
    lines = list(
        used_lines(utilisation(step_work(model, spec, laptop.device), 1.0), None, "simulated")
    )
    assert lines[-1] == UNKNOWN


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM 80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM 40GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe 80GB"),
        ("NVIDIA GB200", "GB200 186GB"),
        ("NVIDIA B200", "B200 SXM 180GB"),
    ],
)
def test_gpus_are_known_by_their_drivers_names(name: str, device: str) -> None:
    found = gpu_named(name)
    assert found is not None
    assert found.name == device
    assert found.flops["bf16"] > 1e14


def test_a_gpu_that_nobody_knows_has_no_peak() -> None:
    assert gpu_named("NVIDIA GeForce RTX 2080") is None
    assert device_names()


def test_a_model_of_a_family_counts_its_own_vocabulary() -> None:
    large = model_by_dimensions("gpt", {"layers": 2, "hidden": 64, "heads": 4, "vocabulary": 10**6})
    assert large.flops_per_token(64) > 6 * 64 * 10**6


@pytest.mark.parametrize("model", TRANSFORMERS, ids=lambda model: model.name)
def test_the_words_of_the_formula_say_what_attention_costs(model: Transformer) -> None:
    row = 4096
    words = formula_of(model)
    assert words.startswith("6 a parameter that multiplies + 12 · layers · ")
    columns = re.search(r"· ([\d,]+) columns", words)
    wide = int(columns[1].replace(",", "")) if columns else model.hidden
    short = re.search(r"in (?:(\d+) of \d+ layers|each layer) the last ([\d,]+)", words)
    seen = min(row, int(short[2].replace(",", ""))) if short else row
    some = int(short[1] or model.layers) if short else 0
    attended = 3 * sum(part.score_flops(row) for unit in model.units for part in unit.parts)
    assert attended == 12 * wide * ((model.layers - some) * row + some * seen)
