import json

import pytest

from steptime.errors import UsageError
from steptime.runs import run_folder


def test_a_record_is_read_as_it_was_written(tmp_path):
    run_folder.write_record(tmp_path, {"verb": "bench", "rows": [1, 2.5]})
    assert run_folder.read_record(tmp_path) == {"verb": "bench", "rows": [1, 2.5]}


def test_a_record_of_before_formats_were_counted_is_read(tmp_path):
    (tmp_path / "run.json").write_text('{"verb": "train", "environment": {"cores": 2}}')
    assert run_folder.read_record(tmp_path)["verb"] == "train"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "has no run.json"),
        ('{"verb": "tra', "cannot read"),
        ("[1, 2]", "cannot read the record of a run .*: Expected `object`"),
        ('{"speed": 1}', "is not steptime's"),
        (json.dumps({"verb": "train", "environment": {"format": 3}}), "use a newer steptime"),
    ],
)
def test_what_is_no_record_is_refused_in_a_sentence(content, says, tmp_path):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError, match=says):
        run_folder.read_record(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match="missing is no folder"):
        run_folder.read_record(tmp_path / "missing")
