"""Sizes, rates and times as people write them: ``64MiB``, ``10GB/s``, ``10Gb/s``, ``5us``.

B is a byte and b a bit; Ki, Mi, Gi are binary and k, M, G decimal. Inside the program everything
is SI: bytes, bytes per second, seconds, FLOP per second.
"""

import math
import re
from collections.abc import Callable
from typing import Self

from steptime.errors import UsageError
from steptime.limits import LEAST_PER_S, MOST_BYTES, MOST_PER_S, MOST_SECONDS

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18} | {
    prefix + "i": 2.0 ** (10 * power) for power, prefix in enumerate("KMGT", start=1)
}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_NUMBER = r"(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*"
_SIZE = re.compile(_NUMBER + r"(?P<prefix>(?:[KMGT]i|[kKMGT])?)(?P<unit>[Bb]?)")
_RATE = re.compile(_NUMBER + r"(?P<prefix>(?:[KMGT]i|[kKMGT])?)(?P<unit>B/s|b/s|bps|bit/s)")
_FLOPS = re.compile(_NUMBER + r"(?P<prefix>[kKMGTPE]?)FLOP/s")
_TIME = re.compile(_NUMBER + r"(?P<unit>ns|us|µs|ms|s|min|h)")


def parse_bytes(text: str) -> int:
    """Bytes of a size such as ``4096``, ``64MiB``, ``1.5GB`` or ``8Mb`` (bits).

    Raises UsageError when the text is no size or not a whole number of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"'{text}' is not a size: write a number and a unit, such as 64MiB or 1GB")
    value = float(match["number"]) * _PREFIXES[match["prefix"]] / (8 if match["unit"] == "b" else 1)
    if value > MOST_BYTES:
        raise UsageError(f"'{text}' is too large: a size is at most 1024PiB")
    if value != int(value):
        raise UsageError(f"'{text}' is {value:g} bytes: a size is a whole number of bytes")
    return int(value)


class Size(int):
    """A number of bytes, made from an int or from text such as ``25MiB``."""

    def __new__(cls, size: str | int) -> Self:
        """Raises UsageError when text is no size, or a number other than 0 without a unit."""
        if not isinstance(size, str):
            return super().__new__(cls, size)
        nbytes = parse_bytes(size)
        if nbytes and not size.rstrip()[-1].isalpha():
            raise UsageError(f"'{size}' says no unit: write it as {size}MiB, or {size}B for bytes")
        return super().__new__(cls, nbytes)

    def __repr__(self) -> str:
        for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if self and not self % scale:
                return f"{self // scale}{unit}"
        return f"{int(self)}B"

    __str__ = __repr__


def parse_rate(text: str) -> float:
    """Bytes per second of a rate such as ``10GB/s``, ``10Gb/s`` or ``200Mbps`` (bits).

    Raises UsageError when the text is no rate; a rate without a unit is refused, not guessed.
    """
    match = _RATE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"'{text}' is not a rate: write bytes as 10GB/s or bits as 10Gb/s")
    bits = match["unit"] != "B/s"
    return _rate(text, float(match["number"]) * _PREFIXES[match["prefix"]] / (8 if bits else 1))


def parse_flops(text: str) -> float:
    """FLOP per second of a rate such as ``312TFLOP/s``.

    Raises UsageError when the text is no such rate.
    """
    match = _FLOPS.fullmatch(text.strip())
    if not match:
        raise UsageError(f"'{text}' is not a rate of computing: write it as 312TFLOP/s")
    return _rate(text, float(match["number"]) * _PREFIXES[match["prefix"]])


def _rate(text: str, per_s: float) -> float:
    """A rate within the limits; 0 is for those to judge who ask for it."""
    if per_s and not LEAST_PER_S <= per_s <= MOST_PER_S:
        raise UsageError(
            f"'{text}' is no rate of anything: it must be from {LEAST_PER_S:g} to {MOST_PER_S:g} a "
            "second"
        )
    return per_s


def parse_seconds(text: str) -> float:
    """Seconds of a time such as ``5us``, ``1.5ms``, ``30s`` or ``5min``.

    Raises UsageError when the text is no time; a time without a unit is refused, not guessed.
    """
    match = _TIME.fullmatch(text.strip())
    if not match:
        raise UsageError(f"'{text}' is not a time: write a number and a unit, such as 5us or 30s")
    seconds = float(match["number"]) * _SECONDS[match["unit"]]
    if seconds > MOST_SECONDS:
        raise UsageError(f"'{text}' is too long: a time is at most {MOST_SECONDS:g} s")
    return seconds


def parse_percentage(text: str, option: str) -> float:
    """A percentage as a fraction: 0.05 for ``5%``; raises UsageError, naming the option."""
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(number) / 100
    except ValueError:
        value = -1.0
    if not text.strip().endswith("%") or not 0 <= value < 1000:
        raise UsageError(f"--{option} is {text!r}: write a percentage from 0 up, as 5%")
    return value


def format_bytes(count: float) -> str:
    """A size in decimal units with three significant digits: ``3.41 MB``."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= 0.9995 * scale:
            return f"{three_digits(count / scale)} {unit}"
    return f"{count:.0f} B"


def format_rate(bytes_per_s: float) -> str:
    """A rate in decimal units with three significant digits: ``3.41 GB/s``."""
    return "unlimited" if bytes_per_s == math.inf else f"{format_bytes(bytes_per_s)}/s"


def format_flops(flops: float) -> str:
    """A rate of computing with three significant digits: ``312 TFLOP/s``."""
    for unit, scale in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if flops >= 0.9995 * scale:
            return f"{three_digits(flops / scale)} {unit}FLOP/s"
    return f"{flops:.0f} FLOP/s"


def format_seconds(seconds: float) -> str:
    """A time with three significant digits and its unit: ``34.1 ms``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= 0.9995 * scale:
            return f"{three_digits(seconds / scale)} {unit}"
    return f"{three_digits(seconds / 1e-9)} ns" if seconds else "0 s"


def seconds_in(seconds: float, unit: float) -> str:
    """A time in a column whose heading says the unit: ``34.1``; with its own below a tenth of that.

    So a column of milliseconds has ``20.0 µs``, which as ``0.02`` would have lost its digits.
    """
    return _in_column(seconds, unit, format_seconds)


def bytes_in(count: float, unit: float) -> str:
    """The same of a size."""
    return _in_column(count, unit, format_bytes)


def _in_column(value: float, unit: float, written: Callable[[float], str]) -> str:
    if 0 < abs(value) < 0.0995 * unit:
        return written(value)
    return three_digits(value / unit)


def three_digits(value: float) -> str:
    """Three significant digits of a number from 1 up, two decimals of a smaller one."""
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:,.{decimals}f}"
