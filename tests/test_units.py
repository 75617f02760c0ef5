import pytest

from steptime.errors import UsageError
from steptime.units import (
    Size,
    bytes_in,
    format_bytes,
    format_flops,
    format_rate,
    format_seconds,
    parse_bytes,
    parse_flops,
    parse_rate,
    parse_seconds,
    seconds_in,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("64MiB", 64 << 20), ("64 MiB", 64 << 20), ("1.5GB", 1_500_000_000),
     ("8Mb", 1_000_000), ("64M", 64_000_000), ("1KiB", 1024), ("1kB", 1000), ("0", 0)],
)  # fmt: skip
def test_sizes(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize(("text", "count"), [("64MiB", 64 << 20), ("8Mb", 1_000_000), ("0", 0)])
def test_a_size_that_is_asked_for_has_a_unit(text, count):
    assert Size(text) == count
    with pytest.raises(UsageError, match="'25' says no unit: write it as 25MiB, or 25B for bytes"):
        Size("25")


@pytest.mark.parametrize("text", ["25MiB", "1GiB", "3KiB", "1000B", "0B"])
def test_a_size_is_written_as_it_can_be_read(text):
    assert str(Size(text)) == text


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10GB/s", 10e9), ("10Gb/s", 1.25e9), ("200Mbps", 25e6), ("200 Mbit/s", 25e6),
     ("1GiB/s", 2**30)],
)  # fmt: skip
def test_rates(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "flops"),
    [("312TFLOP/s", 312e12), ("1.5 PFLOP/s", 1.5e15), ("90GFLOP/s", 90e9), ("7FLOP/s", 7)],
)
def test_rates_of_computing(text, flops):
    assert parse_flops(text) == pytest.approx(flops)


def test_rates_are_written_with_three_digits():
    assert format_flops(312e12) == "312 TFLOP/s"
    assert format_flops(1.979e15) == "1.98 PFLOP/s"
    assert format_flops(12) == "12 FLOP/s"
    assert format_rate(12.34e9) == "12.3 GB/s"
    assert format_rate(float("inf")) == "unlimited"


@pytest.mark.parametrize(
    ("text", "seconds"), [("5us", 5e-6), ("5µs", 5e-6), ("1.5ms", 1.5e-3), ("5min", 300.0)]
)
def test_times(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_bytes, "MiB"), (parse_bytes, "-1"), (parse_bytes, "1QiB"), (parse_bytes, "1.5"),
     (parse_bytes, "nan"), (parse_rate, "10"), (parse_rate, "10GB"), (parse_rate, "-1GB/s"),
     (parse_rate, "1m/s"), (parse_flops, "1TB/s"), (parse_flops, "1"), (parse_flops, "-1TFLOP/s"),
     (parse_seconds, "5"), (parse_seconds, "5 parsecs")],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_by_name(parse, text):
    with pytest.raises(UsageError, match=f"'{text}'"):
        parse(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (3_406_848, "3.41 MB"), (999_900, "1.00 MB"),
     (26_214_400, "26.2 MB"), (497_903_616, "498 MB"), (2.5e12, "2.50 TB")],
)  # fmt: skip
def test_bytes_are_written_with_three_digits(count, text):
    assert format_bytes(count) == text


def test_what_is_small_for_its_column_has_a_unit_of_its_own():
    assert seconds_in(20e-6, 1e-3) == "20.0 µs"
    assert seconds_in(0.1e-3, 1e-3) == "0.10"
    assert seconds_in(34.1e-3, 1e-3) == "34.1"
    assert seconds_in(0, 1e-3) == "0.00"
    assert seconds_in(0.06, 1.0) == "60.0 ms"
    assert bytes_in(2e6, 1e9) == "2.00 MB"
    assert bytes_in(2.5e9, 1e9) == "2.50"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (3e-8, "30.0 ns"), (5e-6, "5.00 µs"), (0.0341, "34.1 ms"), (0.9999, "1.00 s"),
     (72, "72.0 s"), (1234, "1,234 s")],
)  # fmt: skip
def test_seconds_are_written_with_three_digits(seconds, text):
    assert format_seconds(seconds) == text
