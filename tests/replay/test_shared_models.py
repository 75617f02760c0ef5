"""CosmoFlow cut in space and DLRM with its tables spread, on live ranks and as asked for."""

from pathlib import Path
from typing import Any

import pytest

from proxies import proxied
from ranks import on_ranks
from steptime.cluster import cluster_named
from steptime.errors import UsageError
from steptime.study.cases import asked_of_model
from steptime.workloads.spec import StepSpec

ASKED: dict[str, dict[str, Any]] = {
    "cosmoflow": {"tensor": 4, "batch": 1, "scale_bytes": "1/8", "verify": True},
    "dlrm": {"batch": 64, "strategy": "overlapped_sharded", "verify": True},
}


def live() -> list[tuple[int, int, int]]:
    from steptime.replay.replay import replay
    from steptime.replay.standin import nothing
    from steptime.replay.torch_transport import TorchReplayTransport

    found = []
    for model, options in ASKED.items():
        proxy = proxied(model, 4, **options)
        done = replay(
            proxy.program,
            TorchReplayTransport(),
            steps=2,
            warmup=0,
            compute=nothing,
            device=proxy.device,
            verify=True,
            messages=proxy.messages,
        )
        found.append((done.checked, done.wrong, len(done.bounds)))
    return found


def test_every_value_that_they_move_is_right(tmp_path: Path) -> None:
    for rank in on_ranks(4, live, tmp_path):
        for checked, wrong, _ in rank:
            assert checked > 10_000
            assert wrong == 0


def test_simulate_and_proxy_make_the_same_step() -> None:
    cluster = cluster_named("dgx-h100")
    for model, tensor in (("cosmoflow", 4), ("dlrm", None)):
        spec = StepSpec(model=model, ranks=8, tensor=tensor, batch=64, strategy="overlapped")
        asked = asked_of_model(spec, cluster, {})
        (case,) = asked.cases
        proxy = proxied(model, 8, tensor=tensor, batch=64)
        assert case.program.lists == proxy.program.lists
        assert asked.facts["model"] == proxy.program.name
        assert asked.facts_of["overlapped"]["model_memory"].total == proxy.model_memory.total


def test_all_strategies_are_those_that_need_no_root() -> None:
    spec = StepSpec(model="dlrm", strategy="all")
    asked = asked_of_model(spec, cluster_named("dgx-h100"), {})
    names = [case.name for case in asked.cases]
    assert names == ["replicated", "sharded", "overlapped", "overlapped_sharded"]


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("cosmoflow", {"tensor": 4, "bucket": 1}, "--bucket is not for cosmoflow"),
        ("dlrm", {"tokens": 1}, "--tokens is not for dlrm"),
        ("cosmoflow", {"tensor": 2, "pipeline": 2}, "not in 2 along pipeline: leave pipeline out"),
        ("dlrm", {"batch": 63}, "nearest that does is 64"),
        ("dlrm", {"zero": 3}, "zero3 is of ranks that hold the same layers"),
    ],
)
def test_what_they_do_not_read_is_refused(model: str, options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        proxied(model, 4, **options)
