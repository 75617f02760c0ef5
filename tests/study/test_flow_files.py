"""Traffic from a CSV file: what is read, what is refused, and when each flow is done."""

import json
from pathlib import Path
from typing import Any

import pytest

import steptime as st
from simulate.networks import star
from steptime.errors import UsageError
from steptime.study.flows import FLOW, listed_flows, read_flows, simulate_flows


@pytest.fixture
def read(tmp_path):
    def read(*lines: str, devices: int = 4):
        path = tmp_path / "flows.csv"
        path.write_text("\n".join(lines))
        return read_flows(path, devices)

    return read


def test_columns_may_be_in_any_order_and_bytes_have_units(read):
    flows = read("bytes, start_s, dst, src", "1MB, 1e-3, 2, 0", "", "7,0,1,3")
    assert flows.dtype == FLOW
    assert flows.tolist() == [(0, 2, 1_000_000, 1e-3), (3, 1, 7, 0.0)]


HEADER = "src,dst,bytes,start_s"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "line 1 of"),
        ([HEADER], "has no flows"),
        (["src,dst,bytes", "0,1,7"], "it must be src,dst,bytes,start_s"),
        (["src,dst,bytes,start_s,colour", "0,1,7,0,red"], "has the column 'colour'"),
        (["src,dst,bytes,start_s,src", "0,1,7,0,0"], "it must be src,dst,bytes,start_s"),
        ([HEADER, "0,1,7,0", "0,1,7"], "line 3 of"),
        ([HEADER, "0,1,7,0", "0,4,7,0"], "line 3 of"),
        ([HEADER, "0,4,7,0"], "dst is '4', and the cluster's devices are 0 to 3"),
        ([HEADER, "-1,1,7,0"], "src is '-1'"),
        ([HEADER, "0,1,-7,0"], "bytes are wrong: '-7' is not a size"),
        ([HEADER, "0,1,1e30,0"], "'1e30' is too large"),
        ([HEADER, "0,1,nan,0"], "'nan' is not a size"),
        ([HEADER, "0,1,7,-1"], "start_s is '-1'"),
        ([HEADER, "0,1,7,nan"], "start_s is 'nan'"),
        ([HEADER, "0,1,7,inf"], "start_s is 'inf'"),
        ([HEADER, "0,1,7,soon"], "start_s is 'soon'"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(read, lines, sentence):
    with pytest.raises(UsageError) as refused:
        read(*lines)
    assert sentence in str(refused.value)
    assert "flows.csv" in str(refused.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path):
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("absent.csv", "binary.csv"):
        with pytest.raises(UsageError, match="cannot read the flows"):
            read_flows(tmp_path / name, 4)


def test_flows_share_a_link_and_are_recorded(read):
    flows = read(HEADER, "1,0,1000000000,0", "2,0,1000000000,0", "3,1,0,2")
    study = simulate_flows(star(4, bandwidth=1e9, latency=1e-3), flows)
    finish = [flow["finish_s"] for flow in study.record()["flows"]]
    assert finish == pytest.approx([2.002, 2.002, 2.002])
    timeline = study.timeline()
    assert (timeline.source, timeline.ranks) == ("simulated", 4)
    assert timeline.intervals["end"] == pytest.approx(finish)
    assert timeline.messages["received"] == pytest.approx(finish)
    assert timeline.messages["dst"].tolist() == [0, 0, 1]


def test_tuples_are_flows_as_well() -> None:
    flows = listed_flows([(0, 2, "1MB", 1e-3), (3, 1, 7)], 4)
    assert flows.dtype == FLOW
    assert flows.tolist() == [(0, 2, 1_000_000, 1e-3), (3, 1, 7, 0.0)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "there are no flows"),
        ([(0, 1)], r"flow 1 is \(0, 1\): it must be"),
        ([(0, 1, 7), (0, 4, 7)], "flow 2: dst is '4', and the cluster's devices are 0 to 3"),
        ([(-1, 1, 7)], "flow 1: src is '-1'"),
        ([(0.5, 1, 7)], "flow 1: src is '0.5'"),
        ([(0, 1, "much")], "flow 1: bytes are wrong"),
        ([(0, 1, 7, -1.0)], "flow 1: start_s is '-1.0'"),
    ],
)
def test_a_tuple_that_is_no_flow_is_refused(rows: list[Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        listed_flows(rows, 4)


def test_flows_of_the_api_are_those_of_the_command_line(tmp_path: Path) -> None:
    found = st.flows(
        [(1, 0, "1GB"), (2, 0, "1GB")], star(4, bandwidth=1e9, latency=0.0), what_if="bandwidth=2x"
    )
    assert found.last_s == pytest.approx(2)
    assert [row["what_if_finish_s"] for row in found.rows] == pytest.approx([1, 1])
    assert "from 1 to 0, at 2.00 s" in repr(found)
    run = json.loads((found.save(tmp_path / "flows") / "run.json").read_text())
    assert run["run"] == str(tmp_path / "flows")
    assert run["flows"] == found.record["flows"]
