"""The documentation as a site: built strictly, whole, small, and without a network."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
import hooks  # noqa: E402  # it lies beside the pages

LARGEST_PAGE = 300_000  # bytes, without pictures
LARGEST_REPORT = 2_000_000
LARGEST_PICTURE = 150_000
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
TERMS = hooks.terms_of("### bubble\n### all_reduce, all-reduce\n### GOAL\n### world size\n")


def linked(html: str) -> list[tuple[str, str]]:
    """The links that a piece of HTML gets: their anchors and words."""
    made = hooks.link_terms(html, TERMS, "glossary.html")
    return re.findall(r'<a class="term" href="glossary\.html#([\w-]+)">(.*?)</a>', made)


def test_the_first_use_of_a_term_becomes_a_link():
    html = "<p>Bubbles here, a bubble there; the world size.</p><p>world size</p>"
    assert linked(html) == [("bubble", "Bubbles"), ("world-size", "world size")]


def test_names_of_one_thing_are_linked_once():
    assert linked("<p>all-reduce and all_reduce</p>") == [("all_reduce-all-reduce", "all-reduce")]


def test_a_term_in_capitals_is_no_other_word():
    assert linked("<p>The goal is a GOAL file.</p>") == [("goal", "GOAL")]


@pytest.mark.parametrize(
    "html",
    [
        "<h2>The bubble</h2>",
        "<pre><code>bubble <span>bubble</span></code></pre>",
        '<p><a href="x.html">the <em>bubble</em></a></p>',
        '<p><img alt="a bubble" src="x.svg"></p>',
        "<p>micro-bubble, --bubble, bubble_s, in bubble/host</p>",
    ],
)
def test_headings_code_links_and_other_words_stay_as_they_are(html):
    assert hooks.link_terms(html, TERMS, "glossary.html") == html


def test_every_term_of_the_glossary_is_explained_in_a_few_lines():
    entries = re.split(r"^### ", (DOCS / "glossary.md").read_text(), flags=re.M)[1:]
    assert len(entries) > 50
    for entry in entries:
        name, _, text = entry.partition("\n")
        told = text.partition("\n#")[0].partition("\n**")[0].strip()
        assert 1 <= len(told.splitlines()) <= 4, name


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda one: one.stem)
def test_a_page_opens_with_its_question_and_ends_with_what_to_read_next(page):
    text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.S).strip()
    title, first, *_ = re.split(r"\n{2,}", text)
    assert title.startswith("# ")
    assert "?" in first
    last = text.split("\n\n")[-1]
    assert last.startswith("**Read next:** ")
    assert "](" in last


def test_what_moves_stands_where_its_picture_does():
    pictures = []
    for page in DOCS.rglob("*.md"):
        text = page.read_text()
        found = list(hooks.LIVE.finditer(text))
        assert len(found) == len(re.findall(r"^<!-- (?:play|report)", text, re.M)), page
        pictures += [(page.parent / one["picture"]).resolve() for one in found]
    assert sorted(pictures) == sorted((DOCS / "pictures").glob("*.png"))
    assert all(one.stat().st_size <= LARGEST_PICTURE for one in pictures)


def test_a_report_that_cannot_be_made_ends_the_build_in_a_sentence():
    with pytest.raises(PluginError, match=r"'steptime simulate gpt5': .* nothing says on which"):
        hooks.report_of("steptime simulate gpt5")


class Page(HTMLParser):
    """What a page of the site has: anchors, links, and what a browser loads with it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = dict(attrs)
        self.anchors |= {has.get("id") or "", has.get("name") or ""}
        self.links += [has["href"] or ""] if tag == "a" and "href" in has else []
        self.loaded += [has[LOADED[tag]] or ""] if has.get(LOADED.get(tag, "")) else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` does."""
    folder = tmp_path_factory.mktemp("built") / "site"
    mkdocs = Path(sys.executable).with_name("mkdocs")
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def own(pages: dict[Path, Page], of: str) -> Iterator[tuple[Path, Path, str]]:
    """The links, or what is loaded, that stay in the site: from where, to which file and anchor."""
    for file, page in pages.items():
        for target in getattr(page, of):
            parts = urlsplit(target)
            if not parts.scheme and not parts.netloc and not parts.path.startswith("/"):
                path = unquote(parts.path)
                yield (
                    file,
                    (file.parent / path).resolve() if path else file,
                    unquote(parts.fragment),
                )


@pytest.mark.slow
def test_the_site_is_whole_small_and_needs_no_network(site):
    pages = {file: Page(file) for file in sorted(site.rglob("*.html")) if file.name != "404.html"}
    assert {file.stem for file in pages} >= {page.stem for page in DOCS.rglob("*.md")}
    for file in pages:
        live = file.parent.name == "live"
        assert file.stat().st_size <= (LARGEST_REPORT if live else LARGEST_PAGE), file
    for file, target, anchor in (*own(pages, "links"), *own(pages, "loaded")):
        assert target.is_file(), f"{file.name} leads to {target}"
        if anchor and target in pages:
            assert anchor in pages[target].anchors, f"{file.name} leads to {target.name}#{anchor}"
    for file, page in pages.items():
        assert not [one for one in page.loaded if re.match(r"(?:https?:)?//", one)], file
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)[\s\"']*(?:https?:)?//", sheet.read_text()), sheet


@pytest.mark.slow
def test_terms_lead_to_the_glossary_from_pages_in_folders_too(site):
    guide = (site / "guides" / "does-it-scale.html").read_text(encoding="utf-8")
    assert '<a class="term" href="../glossary.html#rank">' in guide
    assert '<a class="term"' not in (site / "glossary.html").read_text(encoding="utf-8")
