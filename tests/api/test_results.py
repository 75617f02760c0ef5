"""What a run gives, read back from its folder."""

from pathlib import Path

import pytest

import steptime as st
from steptime.errors import UsageError
from steptime.runs import run_folder


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no run\.json"):
        st.load(tmp_path)
    run_folder.write_record(tmp_path, {"verb": "bench", "rows": []})
    with pytest.raises(UsageError, match="a run of bench, which took no step"):
        st.load(tmp_path)
