"""Products through epilogues, by a cuBLASLt on a CPU that reads what it is given."""

# ruff: noqa: N802  # its functions have the names of cuBLASLt's

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from steptime.train.model import cublaslt, gelu
from steptime.world import compat

TOKENS, CHANNELS, INNER = 16, 8, 24
FORWARD = cublaslt.Factors(TOKENS, CHANNELS, INNER, transposed=True, device=0)
BACKWARD = replace(FORWARD, transposed=False)
OF_FIRST, EPILOGUE, BIAS, BESIDE, STRIDE = 3, 7, 8, 11, 12
SLOW, FAST, UNABLE = 5.0, 1.0, 7


class Lt:
    """Functions of cublasLt.h on a CPU: matrices lie column after column, as it has them."""

    def __init__(self, milliseconds: list[float]) -> None:
        self.milliseconds = milliseconds
        self.clock = 0.0
        self.made: list[dict[Any, Any]] = []
        self.wishes: dict[int, int] = {}
        self.ran: list[int] = []

    def _new(self, handle: Any, **facts: Any) -> int:
        self.made.append(facts)
        handle._obj.value = len(self.made)
        return 0

    def _of(self, handle: Any) -> dict[Any, Any]:
        return self.made[int(handle.value) - 1]

    def cublasLtCreate(self, handle: Any) -> int:
        return self._new(handle)

    def cublasLtMatmulDescCreate(self, handle: Any, summed: int, scale: int) -> int:
        assert (summed, scale) == (68, 0)
        return self._new(handle)

    def cublasLtMatmulDescSetAttribute(self, one: Any, name: int, value: Any, size: Any) -> int:
        assert size.value == ctypes.sizeof(value._obj)
        self._of(one)[name] = value._obj.value
        return 0

    def cublasLtMatrixLayoutCreate(self, one: Any, kind: int, rows: Any, cols: Any, ld: Any) -> int:
        assert kind == 14
        assert ld.value == rows.value
        return self._new(one, rows=rows.value, columns=cols.value)

    def cublasLtMatmulPreferenceCreate(self, one: Any) -> int:
        return self._new(one)

    def cublasLtMatmulPreferenceSetAttribute(self, one: Any, name: int, value: Any, _: Any) -> int:
        self._of(one)[name] = self.wishes[name] = value._obj.value
        return 0

    def cublasLtMatmulPreferenceDestroy(self, _: Any) -> int:
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> int:
        *_, wanted, ways, found = arguments
        found._obj.value = min(wanted, len(self.milliseconds))
        for number, takes in enumerate(self.milliseconds[:wanted]):
            ways[number].algorithm[0] = number
            ways[number].state = takes == UNABLE
        return 0

    def cublasLtMatmul(self, *arguments: Any) -> int:
        _, one, _, a, of_a, b, of_b, _, c, of_c, d, of_d, way, *_ = arguments
        assert (c.value, of_c.value) == (d.value, of_d.value)
        self.ran.append(way._obj.algorithm[0])
        self.clock += self.milliseconds[self.ran[-1]]
        what = self._of(one)
        first = self._matrix(a.value, of_a)
        out = self._matrix(d.value, of_d)
        product = (first.T if what[OF_FIRST] else first).float() @ self._matrix(
            b.value, of_b
        ).float()
        assert what[STRIDE] == len(out)
        beside = self._matrix(what[BESIDE], of_d)
        if what[EPILOGUE] == cublaslt.Epilogue.GELU:
            bias = torch.frombuffer(_memory(what[BIAS], len(out)), dtype=torch.bfloat16)
            beside.copy_(product + bias[:, None].float())
            out.copy_(F.gelu(beside.float(), approximate="tanh"))
        else:
            of_gelu = torch.ops.aten.gelu_backward(product, beside.float(), approximate="tanh")
            out.copy_(of_gelu)
        return 0

    def _matrix(self, at: int, layout: Any) -> Tensor:
        rows, columns = self._of(layout)["rows"], self._of(layout)["columns"]
        flat = torch.frombuffer(_memory(at, rows * columns), dtype=torch.bfloat16)
        return flat.view(columns, rows).T


def _memory(at: int, elements: int) -> Any:
    return (ctypes.c_uint16 * elements).from_address(at)


@pytest.fixture
def lt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lt]:
    found = Lt([SLOW, UNABLE, FAST, SLOW])

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = found.clock

        def synchronize(self) -> None:
            pass

        def elapsed_time(self, end: Any) -> float:
            return float(end.at - self.at)

    monkeypatch.setattr(cublaslt, "library", lambda: found)
    monkeypatch.setattr(cublaslt, "_workspace", lambda *_: torch.empty(1))
    monkeypatch.setattr(compat, "current_stream", lambda: (0, 0))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    cublaslt._handle.cache_clear()
    yield found
    cublaslt._handle.cache_clear()


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).bfloat16()


@pytest.mark.usefixtures("lt")
def test_gelu_of_a_biased_product_as_torch_has_it() -> None:
    x, fc, bias = drawn(TOKENS, CHANNELS), drawn(INNER, CHANNELS), drawn(INNER)
    out, inner = (torch.empty(TOKENS, INNER, dtype=torch.bfloat16) for _ in range(2))
    product = cublaslt.Product(cublaslt.Epilogue.GELU, FORWARD)
    product(x, fc, out, inner, bias)

    expected = F.linear(x.float(), fc.float(), bias.float())
    torch.testing.assert_close(inner.float(), expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(
        out.float(), F.gelu(expected, approximate="tanh"), rtol=1e-2, atol=2e-2
    )


@pytest.mark.usefixtures("lt")
def test_a_product_times_the_gradient_of_gelu_as_torch_has_it() -> None:
    of_made, proj, inner = drawn(TOKENS, CHANNELS), drawn(CHANNELS, INNER), drawn(TOKENS, INNER)
    out = torch.empty_like(inner)
    product = cublaslt.Product(cublaslt.Epilogue.GELU_BACKWARD, BACKWARD)
    product(of_made, proj, out, inner)

    expected = torch.ops.aten.gelu_backward(
        of_made.float() @ proj.float(), inner.float(), approximate="tanh"
    )
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)


def test_the_fastest_way_is_taken_from_the_second_time_on(lt: Lt) -> None:
    inner = drawn(TOKENS, INNER)
    product = cublaslt.Product(cublaslt.Epilogue.GELU_BACKWARD, BACKWARD)
    for _ in range(2):
        lt.ran.clear()
        product(drawn(TOKENS, CHANNELS), drawn(CHANNELS, INNER), torch.empty_like(inner), inner)

    assert lt.ran == [lt.milliseconds.index(FAST)]


def test_ways_are_asked_for_by_what_tensors_begin_at(lt: Lt) -> None:
    cublaslt.Product(cublaslt.Epilogue.GELU, replace(FORWARD, alignment=16))

    assert [lt.wishes[matrix] for matrix in (5, 6, 7, 8)] == [16] * 4
    assert {lt.made[1][BIAS], lt.made[1][BESIDE]} == {16}


def test_where_no_way_is_known_torch_does_it_in_parts(lt: Lt) -> None:
    lt.milliseconds = [UNABLE]
    with pytest.raises(RuntimeError, match="no way"):
        cublaslt.Product(cublaslt.Epilogue.GELU, FORWARD)
    assert gelu._known(cublaslt.Epilogue.GELU, FORWARD) is None
    gelu._known.cache_clear()
