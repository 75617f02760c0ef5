"""Chakra's traces as JSON, written here as the samples of mlcommons/chakra are."""

import json
from pathlib import Path
from typing import Any

import pytest

from steptime.errors import UsageError
from steptime.program import Collective, Compute
from steptime.record.traces.chakra_json import is_chakra_json, read_chakra_json


def node(number: int, name: str, values: Any, shapes: Any, types: Any) -> dict[str, Any]:
    """A node of PyTorch's execution trace."""
    into = {"values": values, "shapes": shapes, "types": types}
    out_of = {"values": [], "shapes": [], "types": []}
    return {"id": number, "name": name, "ctrl_deps": 2, "inputs": into, "outputs": out_of}


def write(folder: Path, content: Any) -> Path:
    file = folder / "chakra.0.json"
    file.write_text(json.dumps(content))
    return file


def pytorch_trace(*calls: tuple[str, int, str]) -> dict[str, Any]:
    """Calls among 4 ranks: kind, elements that go in, dtype; a wait follows each."""
    group = '[{"pg_name": "0", "ranks": [], "group_size": 4, "group_count": 1}]'
    nodes = [node(3, "## process_group:init ##", [group], [[]], ["String"])]
    for at, (kind, count, dtype) in enumerate(calls):
        tensors = [[14, 15, 0, count, 4, "cuda:0"]]
        values = [tensors, 12, 82149104, 0, kind, [], [], 4]
        shapes = [[[count]], [], [], [], [], [], [], []]
        types = [f"GenericList[Tensor({dtype})]", "Int", "Int", "Int", "String", "", "", "Int"]
        nodes.append(node(10 + 2 * at, "record_param_comms", values, shapes, types))
        nodes.append(node(11 + 2 * at, "record_param_comms", [12, 0, 0, "wait"], [], []))
    return {"schema": "1.0.2-chakra.0.0.4", "pid": 1, "nodes": nodes}


def test_the_calls_of_pytorch_s_execution_trace(tmp_path: Path) -> None:
    calls = [("all_gather", 5, "float"), ("allreduce", 8, "c10::BFloat16"), ("barrier", 1, "int")]
    file = write(tmp_path, pytorch_trace(*calls))
    assert is_chakra_json(file)
    program, lacks = read_chakra_json(file)
    assert (program.ranks, len(program.lists)) == (4, 1)
    found = [(op.kind, op.nbytes) for op in program.lists[0] if isinstance(op, Collective)]
    assert found == [("all_gather", 5 * 4 * 4), ("all_reduce", 16), ("barrier", 0)]
    assert "no time of computing" in lacks


def test_a_trace_without_calls_has_nothing_to_simulate(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no call and no time"):
        read_chakra_json(write(tmp_path, pytorch_trace()))


def test_a_graph_takes_as_long_as_its_nodes(tmp_path: Path) -> None:
    graph = [
        {"Id": 5, "Name": "gemm", "data_deps": [], "runtime": 300, "is_cpu_op": False},
        {"Id": 9, "Name": "ncclKernel", "NodeType": 7, "data_deps": [5, 77], "runtime": 40},
        {"Id": 11, "Name": "aten::add", "data_deps": [9], "is_cpu_op": True},
    ]
    program, lacks = read_chakra_json(write(tmp_path, {"workload_graph": graph}))
    ops = program.lists[0]
    assert all(isinstance(op, Compute) for op in ops)
    assert [(op.name, op.stream, op.after) for op in ops] == [
        ("gemm", "compute", ()),
        ("ncclKernel", "compute", (0,)),
        ("aten::add", "cpu", (1,)),
    ]
    seconds = [op.seconds for op in ops if isinstance(op, Compute)]
    assert seconds == pytest.approx([300e-6, 40e-6, 0.0])
    assert "sizes are not told" in lacks
    with pytest.raises(UsageError, match="two nodes of the number 5"):
        read_chakra_json(write(tmp_path, {"workload_graph": [*graph, graph[0]]}))


def test_what_is_no_chakra_is_none(tmp_path: Path) -> None:
    assert not is_chakra_json(write(tmp_path, {"traceEvents": []}))
    (tmp_path / "cut.json").write_text('{"workload_graph": [')
    assert not is_chakra_json(tmp_path / "cut.json")
    with pytest.raises(UsageError, match="cannot read the Chakra trace"):
        read_chakra_json(write(tmp_path, {"workload_graph": [{"Id": "one"}]}))
