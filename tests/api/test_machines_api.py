"""``steptime.topo`` and ``steptime.measure``."""

from pathlib import Path

import numpy as np
import pytest

import steptime as st
from steptime.api.machines import MeasuredCluster
from steptime.errors import UsageError
from steptime.topo.topology import Kind

SAVED = Path(__file__).parents[1] / "topo" / "saved"


def test_another_machine_and_the_best_ring_over_its_gpus(tmp_path: Path) -> None:
    host = st.topo(SAVED / "dgx-1v.txt")
    assert len(host.topology.of_kind(Kind.GPU)) == 8
    assert host.ring is not None
    assert host.ring.order == (0, 3, 2, 1, 5, 6, 7, 4)
    assert host.ring.rate == host.rates[host.ring.slowest] == 40e9
    assert host.record["ring"]["mark"] == "NV2"
    assert "GPU0" in repr(host)
    assert "A ring over all GPUs" not in repr(host)
    assert "A ring over all GPUs" in repr(st.topo(SAVED / "dgx-1v.txt", explain=True))
    assert "NV2" in host._repr_html_()
    drawn = host.svg(tmp_path / "host.svg")
    assert drawn.read_text().startswith("<svg")


def test_this_machine() -> None:
    host = st.topo()
    count = len(host.topology.parts)
    assert host.rates.shape == (count, count)
    assert np.isinf(np.diag(host.rates)).all()
    assert (host.rates > 0).all()
    assert [part["name"] for part in host.record["parts"]] == [p.name for p in host.topology.parts]


def test_a_file_that_is_no_topology_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.txt").write_text("no matrix\n")
    with pytest.raises(UsageError, match=r"wrong\.txt is neither"):
        st.topo(tmp_path / "wrong.txt")
    with pytest.raises(UsageError, match="No such file"):
        st.topo(tmp_path / "missing.txt")


@pytest.fixture(scope="module")
def measured() -> MeasuredCluster:
    """Two ranks of this machine, without their calls."""
    return st.measure(ranks=2, calls=False)


@pytest.mark.slow
def test_what_was_measured_is_a_cluster(measured: MeasuredCluster, tmp_path: Path) -> None:
    cluster = measured.cluster
    assert (cluster.hosts, cluster.devices) == (1, 2)
    assert cluster.device.basis == "measured"
    assert cluster.device.flops["fp32"] == pytest.approx(measured.device.flops["fp32"], rel=1e-3)
    assert [(pair.src, pair.dst) for pair in measured.pairs] == [(0, 1), (1, 0)]
    for pair in measured.pairs:
        (link,) = cluster.paths([pair.src], [pair.dst])[0]
        assert cluster.links.bandwidth[link] == pytest.approx(pair.bandwidth, rel=1e-3)
        assert cluster.links.latency[link] == pytest.approx(pair.latency_s, rel=1e-3)
    assert measured.calls == cluster.calls == {}
    saved = st.cluster(measured.save(tmp_path / "here.toml"))
    step = st.simulate("gpt2-nano", cluster, ranks=2, strategy="replicated", batch=4)
    again = st.simulate("gpt2-nano", saved, ranks=2, strategy="replicated", batch=4)
    assert step.step_s == again.step_s > 0


@pytest.mark.slow
def test_what_was_measured_is_told(measured: MeasuredCluster) -> None:
    text = repr(measured)
    assert text.startswith(f"2 ranks on {measured.record['library']}")
    for line in ("latency (us, measured)", "device (measured"):
        assert line in text
        assert line in measured._repr_html_()
    assert "calls" not in text
    assert measured.record["pairs"][0]["latency_us"] == measured.pairs[0].latency_s * 1e6
    assert measured.record["launcher"] == "steptime"
    assert measured.record["cluster_file"] is None


@pytest.mark.slow
def test_calls_are_timed_and_limit_all_pairs_at_once() -> None:
    measured = st.measure(ranks=2)
    assert measured.calls.keys() == measured.cluster.calls.keys() > {"all_reduce", "message"}
    assert measured.calls["all_reduce"][0].seconds[-1] > measured.calls["all_reduce"][0].seconds[0]
    shared = measured.cluster.paths([0], [1])[0][1]
    bandwidth = measured.cluster.links.bandwidth[shared]
    assert bandwidth / 1e9 == pytest.approx(measured.record["together_GBps"], rel=1e-3)
    assert "calls (measured)" in repr(measured)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"ranks": 1}, "at least 2 ranks"),
        ({"backend": "none"}, "choose gloo"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_ranks_start(asked, says) -> None:
    with pytest.raises(UsageError, match=says):
        st.measure(**asked)
