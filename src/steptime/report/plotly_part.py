"""The part of plotly.js that pages draw with: the traces of ``USED``, and what these need."""

import re
from collections.abc import Mapping

USED = ("scatter", "bar", "heatmap")

_ROOT = re.compile(
    r"var (?P<root>[\w$]+)=(?P<wrap>[\w$]+)\(\([\w$,]*\)=>\{"
    r"var (?P<core>[\w$]+)=[\w$]+\(\);(?P=core)\.register\(\[(?P<traces>[\w$(),]+)\]\)"
)
"""The last module of the bundle, which registers every kind of trace."""

_CALLED = re.compile(r"(?<![\w$.])([\w$]+)\Z")
_LAZY = re.compile(r"(?<![\w$.])([\w$]+)=[\w$]+\Z")
_LONGEST = 80
"""Characters in which a name, or two with an equals sign, end: those of the bundle have few."""

_EXPORTS = re.compile(r"\.exports=([\w$]+)\(\)")


def part_of(code: str) -> str:
    """``code``, which is plotly.js as esbuild bundles it, without what no trace of USED needs.

    A module of the bundle is ``var NAME=WRAP((exports,module)=>{…});`` and whoever needs it calls
    ``NAME()``: what no call reaches from the last module never runs. A bundle that is not built so
    comes back whole.
    """
    last = _ROOT.search(code)
    if last is None:
        return code
    head = re.compile(rf"(?<=;)var ([\w$]+)={re.escape(last['wrap'])}\((?=[\w$(])")
    heads = list(head.finditer(code, 0, last.end()))
    ends = [*(found.start() for found in heads[1:]), len(code)]
    texts = {found[1]: code[found.start() : end] for found, end in zip(heads, ends, strict=True)}
    traces = last["traces"].replace("()", "").split(",")
    used = [name for name in traces if _is_used(name, texts)]
    if len(used) < len(USED) - 1:  # the core brings scatter along
        return code
    kept = ",".join(f"{name}()" for name in used)
    texts[last["root"]] = texts[last["root"]].replace(last["traces"], kept, 1)
    needed = _needed(last["root"], texts)
    return code[: heads[0].start()] + "".join(texts[name] for name in texts if name in needed)


def _is_used(name: str, texts: Mapping[str, str]) -> bool:
    """Whether a module, or the one whose exports are its own, is a trace of USED."""
    text = texts[name]
    while (other := _EXPORTS.search(text)) and 'moduleType:"' not in text:
        text = texts[other[1]]
    return any(f'moduleType:"trace",name:"{kind}"' in text for kind in USED)


def _needed(root: str, texts: Mapping[str, str]) -> set[str]:
    """The modules that calls reach from ``root``.

    A text may hold lazy parts behind its module, ``NAME=LAZY(()=>{…})``: a call of one of them
    needs the text as well.
    """
    holders = {name: [name] for name in texts}
    for name, text in texts.items():
        for lazy in _before("(()=>", _LAZY, text):
            holders.setdefault(lazy, []).append(name)
    needed, found = set[str](), [root]
    while found:
        if (name := found.pop()) not in needed:
            needed.add(name)
            called = holders.keys() & _before("()", _CALLED, texts[name])
            found += [holder for call in called for holder in holders[call]]
    return needed


def _before(mark: str, name: re.Pattern[str], text: str) -> set[str]:
    """The names before a mark: to look for names alone would try each of 5 million characters."""
    pieces = text.split(mark)[:-1]
    return {found[1] for piece in pieces if (found := name.search(piece[-_LONGEST:]))}
