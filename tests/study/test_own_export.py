"""A format is one file that the package leads to; so is a verb."""

import json

import pytest

from forked import forked
from steptime.errors import UsageError
from steptime.study.export import export_named, formats

LINES = '''
"""how many intervals each rank has, a line a rank."""

import numpy as np

from steptime.study.export import Export


def write(asked):
    counts = np.bincount(asked.timeline.intervals["rank"])
    path = asked.folder / "lines.txt"
    path.write_text("".join(f"{count}\\n" for count in counts))
    return [path]


EXPORT = Export(opened_by="read it", write=write)
'''
GREET = '''"""``greet``: Who is there?"""


def greet(name: str = "rank") -> int:
    """Who is there?

    Parameters
    ----------
    name
        Whom to greet.

    """
    print(f"hello {name}")
    return 3
'''
LED = """
import steptime.cli
import steptime.study.exports
steptime.cli.__path__.append("verbs")
steptime.study.exports.__path__.append("formats")
"""


def here(*words, folder, code=0):
    ended = forked(*words, folder=folder, led=LED)
    assert ended.code == code, ended.err
    return ended.out


@pytest.fixture
def there(tmp_path):
    for folder, name, text in (("verbs", "greet", GREET), ("formats", "lines", LINES.lstrip())):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.py").write_text(text)
    return tmp_path


def test_a_verb_that_the_package_leads_to_is_listed_and_called(there):
    assert "Who is there?" in here("--help", folder=there)
    assert here("greet", "--name", "you", folder=there, code=3) == "hello you\n"


def test_a_format_that_the_package_leads_to_is_offered_and_written(there):
    words = ("simulate", "gpt2", "--cluster", "laptop", "--ranks", "2", "--strategy", "replicated")
    here(*words, "--out", "run", "--json", folder=there)
    offered = here("export", "--help", folder=there).replace("│", " ")
    assert "lines: how many intervals" in " ".join(offered.split())
    told = json.loads(here("export", "run", "--to", "lines", "--json", folder=there))
    assert (told["to"], [file["path"] for file in told["files"]]) == (
        "lines",
        ["run/export/lines.txt"],
    )
    assert len((there / "run" / "export" / "lines.txt").read_text().split()) == 2
    assert here("export", "run", "--to", "lines", folder=there).endswith("read it\n")


def test_a_format_that_is_not_there_is_refused():
    known = ["atlahs", "chakra", "csv", "goal", "hugging_face", "paraver", "parquet", "perfetto"]
    assert list(formats()) == known
    with pytest.raises(UsageError, match="no format 'perfeto': did you mean perfetto"):
        export_named("perfeto")
