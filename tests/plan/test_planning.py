"""A plan: its best layouts, what is said of them, and what would fit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import steptime as st
from steptime.errors import UsageError
from steptime.plan.options import PlanOptions, parse_price, parse_tokens, with_layout
from steptime.plan.why import bound_of, why_second
from steptime.runs.codec import decoded
from steptime.runs.plan import LayoutFigures, PlanRecord, plan_json
from steptime.runs.run_folder import read_record


def figures(**changed: Any) -> LayoutFigures:
    one = LayoutFigures(
        gpus=8,
        axes={"data": 2, "tensor": 4, "pipeline": 1, "expert": 1, "context": 1},
        sequence_parallel=True,
        schedule=None,
        interleave=1,
        micro_batch=2,
        micro_batches=4,
        recompute="none",
        zero=1,
        precision="bf16",
        step_time_s=10.0,
        terms={"products": 7.0, "tensor": 2.0, "data": 1.0},
        bound="",
        mfu=0.5,
        tflops_per_device=500.0,
        tokens_per_s=100.0,
        tokens_per_s_per_device=12.5,
        memory_bytes=60_000_000_000,
        memory={"parameters": 60_000_000_000},
        fits=True,
        expected_error=None,
        options="",
    )
    return replace(one, **changed)


def test_the_sentence_names_what_differs_and_the_terms_that_make_it_lose() -> None:
    second = figures(
        axes={"data": 1, "tensor": 8, "pipeline": 1, "expert": 1, "context": 1},
        step_time_s=10.5,
        terms={"products": 7.0, "tensor": 3.2, "data": 0.3},
    )
    assert why_second(figures(), second) == (
        "The runner-up, with data 1 in place of 2 and tensor 8 in place of 4, takes 5.0 % longer: "
        "1.20 s more tensor calls, for 700 ms less data-parallel calls."
    )


def test_the_sentence_says_where_it_is_as_fast() -> None:
    second = figures(zero=0, memory_bytes=66_000_000_000)
    assert why_second(figures(), second) == (
        "The runner-up, with ZeRO 0 in place of 1, is as fast, but keeps 6.00 GB more."
    )


def test_the_largest_terms_bound_a_step() -> None:
    assert bound_of(figures().terms) == "products 70 %, tensor 20 %, data 10 %"
    assert bound_of({"products": 99.0, "host": 1.0}) == "products 99 %"


def test_a_plan_is_sorted_adds_up_and_fits() -> None:
    found = st.plan("llama3-8B", "dgx-h100", batch=64, tokens_per_row=8192)
    run = found.record
    steps = [one.step_time_s for one in found.best]
    assert steps == sorted(steps)
    assert len(steps) == 10
    for one in (*found.best, *found.front):
        assert sum(one.terms.values()) == pytest.approx(one.step_time_s)
        assert sum(one.memory.values()) == one.memory_bytes <= run.device_bytes
        assert one.fits
        flops = run.flops_per_token * run.tokens_per_step
        assert one.mfu == pytest.approx(flops / one.step_time_s / 8 / run.peak_flops["bf16"])
        assert one.tokens_per_s == pytest.approx(8 * one.tokens_per_s_per_device)
    lean = [(one.memory_bytes, -one.step_time_s) for one in found.front]
    assert lean == sorted(lean)
    assert found.front[-1].step_time_s == steps[0]
    assert run.estimated <= run.fitting <= run.searched
    assert min(c.step_time_s for c in run.cells if c.step_time_s is not None) == steps[0]


def test_fewer_gpus_take_longer_for_the_same_batch() -> None:
    found = st.plan("llama3-8B", "dgx-h100-pod", gpus=[16, 64, 32], batch=128, tokens_per_row=8192)
    gpus = [one.gpus for one in found.record.front_gpus]
    steps = [one.step_time_s for one in found.record.front_gpus]
    assert gpus == [16, 32, 64]
    assert steps == sorted(steps, reverse=True)
    assert found.record.front_gpus[-1] == found.best[0]
    alone = st.plan("llama3-8B", "dgx-h100-pod", gpus=16, batch=128, tokens_per_row=8192)
    assert alone.best[0] == found.record.front_gpus[0]


def test_a_batch_that_nobody_gives_can_be_shared_in_any_way() -> None:
    for gpus in (8, 96, 512):
        found = st.plan("llama3-8B", "dgx-h100-pod", gpus=gpus, tokens_per_row=8192)
        assert found.record.batch % gpus == 0 or gpus % found.record.batch == 0
        assert found.record.tokens_per_step >= 4 << 20


def test_what_is_explained_is_the_best_that_is_so() -> None:
    found = st.plan("llama3-8B", "dgx-h100", batch=64, tokens_per_row=8192)
    one = found.explain("tensor=4, zero=1,sequence_parallel=no").best[0]
    assert (one.axes["tensor"], one.zero, one.sequence_parallel) == (4, 1, False)
    assert one.step_time_s > found.step_s


def test_what_is_explained_may_have_another_batch_or_rows() -> None:
    found = st.plan("gpt2-124M", "dgx-h100", batch=64, layers=6)
    other = found.explain("batch=128,tokens_per_row=512").record
    assert (other.batch, other.tokens_per_row) == (128, 512)
    assert other.parameters == found.record.parameters < st.model("gpt2-124M").parameters


def test_a_training_takes_days_and_money() -> None:
    found = st.plan(
        "llama3-8B", "dgx-h100", batch=64, tokens_per_row=8192, tokens="1T", cost="2.5/h"
    )
    training, best = found.record.training, found.best[0]
    assert training is not None
    assert training.steps == pytest.approx(1e12 / (64 * 8192))
    assert training.days == pytest.approx(1e12 / best.tokens_per_s / 86400)
    assert training.cost == pytest.approx(training.days * 24 * 8 * 2.5)


def test_what_fits_nowhere_says_what_would() -> None:
    found = st.plan("llama3-70B", "dgx-a100", batch=64, tokens_per_row=4096)
    assert not found.fits
    assert found.front == []
    assert not any(one.fits for one in found.best)
    assert found.record.remedy.startswith("It fits on ")
    assert "of these devices (a larger cluster): --" in found.record.remedy
    assert "DOES NOT FIT: of" in repr(found)
    gpus = int(found.record.remedy.split()[3])
    larger = st.plan("llama3-70B", "dgx-a100-pod", gpus=gpus, batch=64, tokens_per_row=4096)
    assert larger.fits
    assert not st.plan(
        "llama3-70B", "dgx-a100-pod", gpus=gpus // 2, batch=64, tokens_per_row=4096
    ).fits


def test_what_is_fixed_is_the_first_to_go() -> None:
    found = st.plan("llama3-8B", "dgx-a100", batch=64, tokens_per_row=8192, zero=0, tensor=1,
                    pipeline=1)  # fmt: skip
    assert not found.fits
    assert found.record.remedy.startswith("Without --tensor, --pipeline, --zero it fits: --")
    assert found.record.remedy.count("keeps") == 1


def test_a_plan_is_read_back_from_its_folder(tmp_path: Path) -> None:
    found = st.plan("llama3-8B", "dgx-h100", batch=64, tokens_per_row=8192, cost=2)
    out = found.save(tmp_path / "planned")
    raw = read_record(out)
    assert raw == plan_json(replace(found.record, run=str(out)))
    assert decoded(raw, PlanRecord).best[0] == found.best[0]
    assert (out / "report.html").read_text().startswith("<!doctype html>")


def test_what_the_software_does_not_run_is_no_layout() -> None:
    asked = {"batch": 64, "tokens_per_row": 4096, "pipeline": 8, "rows": 8, "schedule": "1f1b"}
    st.plan("llama3-8B", "dgx-h100", **asked, data=1, interleave=1)
    with pytest.raises(UsageError, match=r"nanotron runs no such layout of .*: its 1F1B needs"):
        st.plan("llama3-8B", "dgx-h100-pod", gpus=16, **asked, data=2, interleave=1,
                software="nanotron")  # fmt: skip


def test_simulations_stand_beside_the_estimates() -> None:
    found = st.plan("gpt2-124M", "dgx-a100", batch=64, simulate=2)
    agreed = found.record.agreement
    assert agreed is not None
    assert (agreed.layouts, agreed.left_out) == (2, 0)
    first, second, *others = found.best
    for one in (first, second):
        assert one.simulated_step_time_s
        assert abs(one.step_time_s / one.simulated_step_time_s - 1) <= agreed.largest
    assert all(one.simulated_step_time_s is None for one in others)


def test_processes_simulate_the_same_layouts_and_what_is_kept_is_taken(tmp_path: Path) -> None:
    def simulated(**how: Any) -> list[float | None]:
        found = st.plan("gpt2-124M", "dgx-a100", gpus=4, batch=64, simulate=3, **how)
        return [one.simulated_step_time_s for one in found.best]

    alone = simulated(cache=tmp_path)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 3
    kept[0].unlink()
    assert simulated(cache=tmp_path, jobs=2) == alone
    assert sorted(tmp_path.iterdir()) == kept
    other = simulated(cache=tmp_path, software="llm-foundry")
    assert other[:3] != alone[:3]
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"model": "resnet50"}, "resnet50 is .* no heads or blocks"),
        ({"gpus": 9}, "9 ranks do not fit on dgx-h100"),
        ({"precision": "fp23"}, "--precision has no 'fp23'"),
        ({"cluster": "laptop", "precision": "fp16"}, "no rate for fp16: choose another --prec"),
        ({"tensor": 3}, "3 tensor ranks do not divide the 32 heads"),
        ({"tokens_per_row": 1 << 20}, "the context is 1048576 and llama3-8B has positions"),
        ({"software": "megatrom"}, "no software 'megatrom': did you mean megatron"),
        ({"tokens": 8192}, "--tokens is 8192, and one step reads .* --tokens-per-row"),
        ({"tokens": "15X"}, "--tokens is '15X': write the tokens of the whole training"),
        ({"cost": "cheap"}, "--cost is 'cheap': write what a device costs in an hour"),
        ({"zero": 4}, "--zero is 4: it must be at most 3"),
        ({"batch": 0}, "--batch is 0: it must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    asked: dict[str, Any] = {"model": "llama3-8B", "cluster": "dgx-h100"} | arguments
    with pytest.raises(UsageError, match=sentence):
        st.plan(asked.pop("model"), asked.pop("cluster"), **asked)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tensor", "'tensor': write NAME=VALUE"),
        ("tensr=4", "no 'tensr': did you mean tensor"),
        ("tensor=four", "tensor=four: it must be a whole number"),
        ("tensor=4,tp=2", "says tensor twice"),
        ("recompute=some", "write none, selective or full"),
        ("sp=perhaps", "write yes or no"),
    ],
)
def test_a_layout_in_words_that_is_none_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        with_layout(PlanOptions(), text)


def test_a_layout_in_words() -> None:
    found = with_layout(PlanOptions(zero=1), "tp=8, pp=4,mbs=2".replace("mbs", "micro-batch"))
    assert found == PlanOptions(zero=1, tensor=8, pipeline=4, rows=2)


def test_numbers_as_people_write_them() -> None:
    assert [parse_tokens(text) for text in ("15T", "300B", "1.5M", 7)] == [15e12, 3e11, 1.5e6, 7]
    assert [parse_price(text) for text in ("2.5/h", "$3 / h", 2)] == [2.5, 3.0, 2.0]
