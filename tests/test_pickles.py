"""Functions on their way between processes."""

from types import CodeType

import cloudpickle
import pytest

from steptime.pickles import packed, unpacked


def test_a_function_keeps_its_file_where_cloudpickle_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reduce = cloudpickle.Pickler.dispatch_table[CodeType]

    def leaves_out(code: CodeType) -> object:
        return reduce(code.replace(co_filename="<dynamic-code>"))

    monkeypatch.setitem(cloudpickle.Pickler.dispatch_table.maps[0], CodeType, leaves_out)
    cell: dict[str, object] = {"__name__": "__main__"}
    exec(compile("def outer():\n    return lambda: 7\n", "cell.py", "exec"), cell)  # noqa: S102 - as a notebook does
    outer = unpacked(packed(cell["outer"], "outer holds", "mend"))
    assert (outer.__code__.co_filename, outer().__code__.co_filename) == ("cell.py", "cell.py")
    assert (outer.__code__.co_firstlineno, outer()()) == (1, 7)
