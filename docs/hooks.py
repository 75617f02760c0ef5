"""What the site does to the pages as it is built, so that they stay plain Markdown on GitHub.

MkDocs calls the functions named ``on_…``. The first use of a glossary's term on a page becomes a
link; a link to a file of the repository beyond docs/ leads to a copy of it in the site. A picture
of something that moves is replaced by the thing itself: below ``<!-- play NAME -->`` by the player
of that collective algorithm, below ``<!-- report: COMMAND -->`` by the page that the command
leaves, which is run for it and so must be simulated or computed, the same on every machine.
"""

import posixpath
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from pymdownx.slugs import slugify  # type: ignore[import-untyped]

import steptime as st

GLOSSARY = "glossary.md"
RANKS_THAT_PLAY = 8
SILENT = {"a", "code", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "th", "svg", "script", "style"}
"""Elements whose text gets no link."""

LIVE = re.compile(
    r"^<!-- (?P<kind>play|report:) (?P<what>.+) -->\n"
    r"!\[(?P<title>[^\]]+)\]\((?P<picture>[^)]*?(?P<name>[\w-]+)\.png)\)$",
    re.M,
)
"""What a page embeds, and the picture that stands for it elsewhere."""

_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")
_TAG = re.compile(r"(<!--.*?-->|<[^>]*>)", re.S)
_NAME = re.compile(r"</?([a-z][a-z0-9]*)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what pages lead to and docs/ does not hold: files of the repository, what they embed."""
    docs = Path(config.docs_dir)
    for page in list(files.documentation_pages()):
        text = page.content_string
        for _, target, _ in _LINK.findall(text):
            path = _beyond(page.src_uri, target)
            source = docs.parent / (path or "")
            if path and source.is_file():
                _add(files, File.generated(config, _copy(path), abs_src_path=str(source)))
        for name, made in embedded(text).items():
            _add(files, File.generated(config, _live(name), content=made))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links beyond docs/ to the copies, of folders keep the words alone; embed what moves."""
    del config
    here = page.file.src_uri

    def led(found: re.Match[str]) -> str:
        text, target, _ = found.groups()
        path = _beyond(here, target)
        if path is None:
            return found[0]
        if files.get_file_from_path(_copy(path)) is None:
            return text
        return f"[{text}]({_relative(_copy(path), here)})"

    def framed(found: re.Match[str]) -> str:
        live = _live(found["name"])
        source = get_relative_url(live, page.url)
        frame = f'<iframe class="live" title="{found["title"]}" src="{source}"></iframe>'
        return f"{frame}\n\n[Open it on its own]({_relative(live, here)})"

    return LIVE.sub(framed, _LINK.sub(led, markdown))


def embedded(text: str) -> Mapping[str, str]:
    """The pages that a page of the site embeds, by the name of the picture that each replaces."""
    return {
        found["name"]: _player_of(found["what"])
        if found["kind"] == "play"
        else report_of(found["what"])
        for found in LIVE.finditer(text)
    }


def _player_of(algorithm: str) -> str:
    return st.show(algorithm, ranks=RANKS_THAT_PLAY).page()


@cache
def report_of(command: str) -> str:
    """The page that a command of ``steptime`` leaves in the folder of its run."""
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command), "--out", "run"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise PluginError(f"cannot embed the page of {command!r}: {done.stderr.strip()}")
        return Path(folder, "run", "report.html").read_text(encoding="utf-8")


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the first use of each term to the glossary."""
    del config
    glossary = files.get_file_from_path(GLOSSARY)
    if glossary is None or page.file is glossary:
        return html
    return link_terms(
        html, terms_of(glossary.content_string), get_relative_url(glossary.url, page.url)
    )


@cache
def terms_of(text: str) -> Mapping[str, str]:
    """Each term of a glossary, with its anchor: its headings of the third level.

    A heading may hold several names of one thing, with commas between them.
    """
    slug = slugify(case="lower")
    return {
        name: slug(heading, "-")
        for heading in re.findall(r"^### (.+)$", text, re.M)
        for name in heading.split(", ")
    }


def link_terms(html: str, terms: Mapping[str, str], glossary: str) -> str:
    """A page with a link at the first use of each term in its prose.

    ``terms`` leads from a term to its anchor in the page ``glossary``. A term in small letters may
    begin a sentence, and may stand in the plural; one with capitals is found as it is written.
    """
    anchors = dict(terms)
    names = "|".join(map(_pattern, sorted(terms, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w/-])(?:{names})(?:e?s)?(?![\w/-])")
    left = set(terms.values())

    def linked(found: re.Match[str]) -> str:
        anchor = _anchor(found[0], anchors)
        if anchor not in left:
            return found[0]
        left.remove(anchor)
        return f'<a class="term" href="{escape(glossary)}#{anchor}">{found[0]}</a>'

    pieces = _prose(html)
    return "".join(pattern.sub(linked, piece) if speaks else piece for piece, speaks in pieces)


def _pattern(name: str) -> str:
    """What finds a name: of one in small letters the first may be a capital."""
    first = name[0]
    return rf"[{first}{first.upper()}]{re.escape(name[1:])}" if name.islower() else re.escape(name)


def _anchor(word: str, anchors: Mapping[str, str]) -> str:
    """The anchor of a word as it was found, in the plural or at the start of a sentence."""
    forms = (word, word.removesuffix("s"), word.removesuffix("es"))
    return next(anchors[one] for form in forms for one in (form, form.lower()) if one in anchors)


def _prose(html: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a page, and of each whether it is text that may get a link."""
    within = 0
    for piece in _TAG.split(html):
        name = _NAME.match(piece)
        if name and name[1] in SILENT:
            within += -1 if piece.startswith("</") else 1
        yield piece, not within and not piece.startswith("<")


def _beyond(page: str, target: str) -> str | None:
    """The path in the repository that a link of a page leads to, where that is not in docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path == "docs" or path.startswith("docs/") else path


def _copy(path: str) -> str:
    """Where the site keeps a file of the repository: as text, for any browser to show."""
    return f"repository/{path}.txt"


def _live(name: str) -> str:
    """Where the site keeps a page that it embeds."""
    return f"live/{name}.html"


def _relative(target: str, page: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def _add(files: Files, file: File) -> None:
    """Add a file once."""
    if files.get_file_from_path(file.src_uri) is None:
        files.append(file)
