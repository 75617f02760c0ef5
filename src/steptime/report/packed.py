"""Bytes within a page, as text: plotly.js, figures and steps of runs, which ``unpack.js`` reads.

A character is seven bits: one byte of UTF-8, where base64 has six bits in it. Seven bits that no
script may hold as they are (NUL, a carriage return, ``<``) stand 256 characters further on, as a
letter of two bytes.
"""

import json
import zlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

_MOVED = {code: chr(code + 256) for code in (0, ord("\r"), ord("<"))}


def packed(content: bytes) -> str:
    """Any bytes as text that a script element can hold."""
    bits = np.unpackbits(np.frombuffer(content, np.uint8))
    rows = np.pad(bits, (0, -len(bits) % 7)).reshape(-1, 7)
    codes = np.packbits(rows, axis=1) >> 1
    return codes.tobytes().decode("ascii").translate(_MOVED)


def packed_json(what: Any) -> str:
    """What JSON can say, deflated, as a script element holds it."""
    from markupsafe import Markup

    content = json.dumps(what, separators=(",", ":"), ensure_ascii=False).encode()
    return Markup(packed(zlib.compress(content, 9)))  # noqa: S704


@cache
def plotly_packed() -> str:
    """The part of plotly.js that pages need, deflated: 0.44 MB of a page in place of 4.8."""
    from markupsafe import Markup

    from steptime.report.plotly_part import part_of

    # No character of it begins a tag, and autoescape would break it.
    return Markup(packed(zlib.compress(part_of(plotly_js()).encode(), 9)))  # noqa: S704


def plotly_js() -> str:
    """plotly.js as the package plotly brings it, which takes half a second to import."""
    spec = find_spec("plotly")
    assert spec is not None and spec.submodule_search_locations  # noqa: S101  # pip installs it
    folder = Path(spec.submodule_search_locations[0], "package_data")
    return (folder / "plotly.min.js").read_text(encoding="utf-8")
