"""What README and docs say is so: their commands run, their tables match the code."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from cyclopts import App

from steptime.cli import build_app
from steptime.collectives import all_algorithms
from steptime.strategies import live_strategies
from steptime.train.config import SIZES

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import renew  # noqa: E402  # it lies beside the pages

BIN = Path(sys.executable).parent
PAGES = renew.PAGES
OF_OTHERS = {
    "nsys": {"--type"},
    "sbatch": {
        *("--job-name", "--ntasks-per-node", "--signal", "--chdir", "--output", "--open-mode"),
        *("--constraint", "--exclusive", "--wait"),
    },
    "srun": {"--kill-on-bad-exit"},
    "torchrun": {"--nproc-per-node"},
    "unshare": {"--monotonic", "--time"},
}
"""Options of commands that are not ours."""


def commands(page: Path) -> list[str]:
    """The commands that a page shows after a prompt."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.S | re.M)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *words = shlex.split(command)
    return subprocess.run(
        [BIN / program, *words],
        cwd=folder,
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_a_command_that_prints_nothing_empties_no_block(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ steptime show nothing\nwhat it showed\n```\n")
    silent = tmp_path / "bin" / "steptime"
    silent.parent.mkdir()
    silent.write_text("#!/bin/sh\n")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    with pytest.raises(SystemExit, match="'steptime show nothing' printed nothing"):
        renew.renew(page)
    assert "what it showed" in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [c for c in commands(ROOT / "README.md") if not c.startswith("make ")]
)
def test_the_commands_of_the_readme_run(command, tmp_path):
    if re.search("steptime (compare|train) ", command) and "--steps" not in command:
        command += " --steps 5"  # all of them take minutes
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert len(list(tmp_path.glob("runs/*/report.html"))) == 1


@pytest.mark.slow
def test_the_python_of_the_readme_runs_as_a_script(tmp_path):
    (block,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    (tmp_path / "script.py").write_text(block + "print(st.run(dist.get_rank, ranks=4))\n")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert (done.stdout, done.stderr) == ("(0, 1, 2, 3)\n", "")


def test_make_demo_is_the_command_that_the_readme_shows():
    recipe = (ROOT / "Makefile").read_text()
    assert "steptime compare --ranks 4 --out runs/demo" in recipe
    assert "steptime compare --ranks 4" in commands(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_strategy_and_model_is_described():
    text = (ROOT / "docs" / "compare.md").read_text()
    described = re.findall(r"^\| `(\w+)` \|", text, re.M)
    assert sorted(described) == sorted(live_strategies())
    assert all(f"`{size}`" in text for size in SIZES)


@pytest.mark.slow
def test_the_page_on_collectives_shows_what_its_commands_print(tmp_path):
    text = (ROOT / "docs" / "collectives.md").read_text()
    for language, block in re.findall(r"^```(python|console)\n(.*?)^```", text, re.S | re.M):
        if language == "console":
            command, _, shown = block.removeprefix("$ ").partition("\n")
            done = run(command, tmp_path)
            assert done.stderr == "", command
            assert [line.rstrip() for line in done.stdout.strip("\n").splitlines()] == (
                shown.splitlines()
            ), command
        elif block.startswith("# mine.py\n"):
            (tmp_path / "mine.py").write_text(block)
    assert (tmp_path / "player.html").exists()
    listed = re.findall(r"^(\w+) +(\w+) +8 ", text, re.M)
    assert listed == [(a.collective.name, a.name) for a in all_algorithms() if a.serves(8)]


def test_the_page_on_models_shows_what_its_commands_print(tmp_path):
    text = (ROOT / "docs" / "models.md").read_text()
    folder = tmp_path / "Qwen3-0.6B"
    folder.mkdir()
    config = (ROOT / "tests" / "workloads" / "configs" / "Qwen3-0.6B.json").read_text()
    (folder / "config.json").write_text(config)
    (block,) = re.findall(r"^```toml\n(.*?)^```", text, re.S | re.M)
    (tmp_path / "small.toml").write_text(block)
    shown = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", text, re.S | re.M)
    assert len(shown) == 3
    for command, lines in shown:
        done = run(command, tmp_path)
        printed = (done.stdout + done.stderr).strip("\n").splitlines()
        assert [line.rstrip() for line in printed] == lines.splitlines(), command


SHOWN = [block for page in PAGES for block in renew.blocks(page)]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            block,
            marks=[pytest.mark.slow] if block.takes_long else [],
            id=f"{block.page.relative_to(ROOT)}-{block.command[:60]}",
        )
        for block in SHOWN
    ],
)
def test_a_page_shows_what_its_command_prints(block, tmp_path):
    lines = renew.printed(block.command, tmp_path)
    assert renew.agree(block.lines, lines), "\n".join(
        ["python docs/renew.py mends this page; the command prints", *lines]
    )


def test_pages_are_compared_word_by_word_and_with_what_they_leave_out():
    printed = ["a  12 ms", "b  13 ms", "in 3.21 s on", "this computer"]
    assert renew.agree(["a 12 ms", "b 13 ms in", "990 ms on this computer"], printed)
    assert renew.agree(["a 12 ms", "…"], printed)
    assert not renew.agree(["a 12 ms"], printed)
    assert not renew.agree(["…", "b 13 ms", "a 12 ms", "…"], printed)
    assert not renew.agree(["a 12 ms", "b 14 ms", "…"], printed)
    assert len(SHOWN) > 15


TINY = "--layers 1 --heads 2 --hidden 32 --tokens 32 --batch 8"
LIVE = {
    "record": ["record --ranks 2 examples/ddp.py"],
    "compare": [f"compare --ranks 2 {TINY} --steps 2 --strategies server,replicated"],
    "train": [f"train --ranks 2 {TINY} --steps 3"],
    "scale": [f"scale --ranks 1,2 {TINY} --steps 2"],
    "bench": ["bench all_reduce --ranks 2 --backend gloo -b 1K -e 1K --algorithms builtin,ring"],
    "diff": [f"train --ranks 2 {TINY} --steps 12 --out {run}" for run in "ab"] + ["diff a b"],
}
"""Of each verb that measures, what prints the tables that pages show of it, in little time."""
UNITS = re.compile(r"\b(?:[nµm]?s|[kMGT]?B)(?= |$)")


def headings(lines: Sequence[str]) -> set[str]:
    """The headings of the tables that a command printed, whatever their widths and units."""
    above = [
        f"{lines[at - 2]} {lines[at - 1]}" for at, line in enumerate(lines) if line[:9] == "─" * 9
    ]
    told = [line for line in lines if line.startswith("#   ")]
    return {" ".join(UNITS.sub("unit", one.strip()).split()) for one in above + told}


def shown_by(verb: str) -> set[str]:
    """The headings of the tables that the pages show of a verb that measures."""
    blocks = [
        block
        for page in PAGES
        if page not in renew.APART
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.S | re.M)
    ]
    printed = [
        piece.splitlines()
        for block in blocks
        for piece in re.split(r"^\$ ", block, flags=re.M)
        if piece.startswith(f"steptime {verb} ") and "--cluster" not in piece.partition("\n")[0]
    ]
    return set().union(*map(headings, printed))


@pytest.mark.slow
@pytest.mark.parametrize("verb", LIVE)
def test_pages_show_the_tables_that_a_live_verb_prints_now(verb, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command in LIVE[verb]:
        done = run(f"steptime {command}", tmp_path)
        assert done.returncode == 0, done.stderr
    assert set() < shown_by(verb) <= headings(done.stdout.splitlines())


JUDGED = sorted(
    {
        (page, command, lines)
        for page in PAGES
        for command, lines in renew.BLOCK.findall(page.read_text())
        if command.startswith("steptime check --ranks 2 examples/")
    }
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "command", "lines"), JUDGED, ids=lambda one: one.stem if isinstance(one, Path) else ""
)
def test_pages_show_the_findings_that_check_prints_but_for_their_figures(
    page, command, lines, tmp_path
):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shown, printed = (
        re.sub(r"\d[\d.]*", "#", text).splitlines()
        for text in (lines, run(command, tmp_path).stdout)
    )
    assert renew.agree(shown, printed), page


def options(app: App) -> set[str]:
    """The names of a verb's options, those of the verbs below it included."""
    below = [app[name] for name in app if not name.startswith("-")]
    own = app.assemble_argument_collection() if app.default_command else []
    names = {name for argument in own for name in argument.names if name.startswith("--")}
    return names.union(*map(options, below))


def named(text: str) -> set[str]:
    """The options that stand in a text."""
    return set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*(?![\w-])", text)) - {"--help"}


@pytest.fixture(scope="module")
def verbs() -> dict[str, set[str]]:
    """Each verb and its options."""
    app = build_app()
    return {name: options(app[name]) for name in app if not name.startswith("-")}


@pytest.mark.parametrize("verb", ["compare", "scale", "simulate", "train"])
def test_every_option_on_the_page_of_a_verb_is_its_own(verb, verbs):
    assert named((ROOT / "docs" / f"{verb}.md").read_text()) <= verbs[verb]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_verb_and_option_that_a_page_names_exists(page, verbs):
    text = page.read_text()
    for command in re.findall(r"(?:`|\$ .*?)(?<![\w/.])steptime ([a-z]+.*?)(?:`|$)", text, re.M):
        verb = command.split()[0]
        assert verb in verbs, command
        assert named(re.split(" (?::|--) ", command)[0]) <= verbs[verb], command
    of_benchmarks = (named(path.read_text()) for path in (ROOT / "benchmarks").glob("*.py"))
    assert named(text) <= set().union(*verbs.values(), *OF_OTHERS.values(), *of_benchmarks)


def test_the_readme_tells_of_every_verb(verbs):
    rows = re.findall(
        r"^\| (?:\[?`steptime (\w+)`.*?)(?:, \[?`(\w+)`.*?)? \|",
        (ROOT / "README.md").read_text(),
        re.M,
    )
    assert {verb for row in rows for verb in row if verb} == set(verbs)


def test_the_page_of_the_architecture_shows_the_layers_as_import_linter_holds_them():
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", (ROOT / "docs/architecture.md").read_text(), re.M)
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = contract["contracts"][0]["layers"]
    held = [
        (
            len(layers) - 1 - place,
            {name.strip().removeprefix("steptime.") for name in layer.split("|")},
        )
        for place, layer in enumerate(layers)
    ]
    shown = [(number, {name for at, name in rows if int(at) == number}) for number, _ in held]
    assert shown == held
    assert len(rows) == sum(len(names) for _, names in held)


def test_every_file_that_the_page_of_the_architecture_names_is_there():
    text = (ROOT / "docs/architecture.md").read_text()
    named = set(re.findall(r"(?<![\w*])([\w/]+\.(?:py|c))\b", text)) - {"FILE.py"}
    source = ROOT / "src" / "steptime"
    files = [f"/{path.relative_to(source)}" for path in source.rglob("*.*")]
    missing = {
        name
        for name in named
        if not any(file.endswith(f"/{name.removeprefix('src/steptime/')}") for file in files)
    }
    assert missing == set()
