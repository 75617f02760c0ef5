"""A cluster with other figures: every change that can be asked for, and those refused."""

import numpy as np
import pytest

from simulate.networks import star
from steptime.cluster.what_if import Change, changed, ideal, parse_what_if, what_if
from steptime.errors import UsageError


def asked(text: str):
    return what_if(star(3, bandwidth=10e9, latency=4e-6, reduction=5e9), parse_what_if(text))


@pytest.mark.parametrize(
    ("text", "bandwidth"), [("2x", 20e9), ("0.5×", 5e9), ("100GB/s", 100e9), ("inf", np.inf)]
)
def test_bandwidth_is_a_factor_or_a_rate(text, bandwidth):
    links = asked(f"bandwidth={text}").links
    assert links.bandwidth == pytest.approx(np.full(6, bandwidth))
    assert links.latency == pytest.approx(np.full(6, 4e-6))


@pytest.mark.parametrize(("text", "latency"), [("0", 0), ("0x", 0), ("0.5x", 2e-6), ("5us", 5e-6)])
def test_latency_is_a_factor_or_a_time(text, latency):
    links = asked(f"latency={text}").links
    assert links.latency == pytest.approx(np.full(6, latency))
    assert links.bandwidth == pytest.approx(np.full(6, 10e9))


def test_compute_is_the_speed_of_devices_and_reduction_their_own_rate():
    cluster = asked("compute=1.5x, reduction=2x")
    assert cluster.speed == pytest.approx(np.full(3, 1.5))
    assert cluster.device.reduction == 10e9
    assert np.isinf(asked("compute=inf").speed).all()


def test_several_changes_are_all_made_and_the_cluster_asked_about_stays_as_it_is():
    before = star(2)
    after = what_if(before, parse_what_if("bandwidth=2x,latency=0,compute=3x"))
    assert after.links.bandwidth == pytest.approx(2 * before.links.bandwidth)
    assert not after.links.latency.any()
    assert after.speed == pytest.approx(3 * before.speed)
    assert before.links.latency.all()


def test_ideal_is_no_latency_and_infinite_bandwidth():
    links = ideal(star(2)).links
    assert np.isinf(links.bandwidth).all()
    assert not links.latency.any()


def test_a_change_of_some_links_leaves_the_others():
    after = changed(star(2, bandwidth=1e9), Change("bandwidth", factor=2.0), np.array([1, 3]))
    assert after.links.bandwidth == pytest.approx([1e9, 2e9, 1e9, 2e9])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "does not know ''"),
        ("bandwidth", "does not know 'bandwidth'"),
        ("speed=2x", "does not know 'speed=2x': write bandwidth, latency, compute, reduction"),
        ("bandwidth=2", "bandwidth=2 is no bandwidth: write 2x, 100GB/s or inf"),
        ("bandwidth=nan", "bandwidth=nan is no bandwidth"),
        ("bandwidth=-2x", "bandwidth=-2x is no bandwidth"),
        ("bandwidth=1e999x", "bandwidth=1e999x is no bandwidth"),
        ("bandwidth=0x", "bandwidth=0x: it must be above 0"),
        ("bandwidth=0GB/s", "it must be above 0"),
        ("compute=0", "it must be above 0"),
        ("compute=3GB/s", "compute=3GB/s is no compute: write 1.5x or inf"),
        ("latency=inf", "latency=inf is no latency: write 0.5x, 5us or 0"),
        ("latency=5", "latency=5 is no latency"),
        ("latency=0,latency=5us", "changes latency twice"),
    ],
)
def test_what_makes_no_sense_is_refused(text, sentence):
    with pytest.raises(UsageError, match="--what-if") as refused:
        parse_what_if(text)
    assert sentence in str(refused.value)
