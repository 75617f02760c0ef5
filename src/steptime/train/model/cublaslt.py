"""Products of matrices by cuBLASLt, which can do more to them than torch asks it for.

cuBLASLt writes a product through an *epilogue*: a bias added, GELU, or GELU's gradient. What would
else read and write the product once more is done while it is in the GPU's registers. torch has
cuBLASLt loaded and offers few of these, so its C functions are called here (CUDA Toolkit, "cuBLAS",
section "Using the cuBLASLt API"; numbers are those of cublasLt.h). Tensors are bf16 and contiguous,
products summed in fp32.
"""

import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, partial
from threading import Lock
from typing import TypeAlias

import torch
from torch import Tensor

from steptime.world import compat

_BF16, _FP32, _SUMMED_IN_FP32 = 14, 0, 68
_TRANSPOSE_FIRST, _EPILOGUE, _BIAS, _BESIDE, _BESIDE_STRIDE = 3, 7, 8, 11, 12
_MOST_WORKSPACE, _LEAST_ALIGNMENTS = 1, (5, 6, 7, 8)
_WORKSPACE_BYTES = 32 << 20
_CANDIDATES, _TIMES = 8, 4
ALIGNMENTS = (256, 16)
"""Of the addresses of tensors, in bytes, by which ways differ: torch's own, and parts of those."""

_ONE, _ZERO = c_float(1), c_float(0)
Number: TypeAlias = c_int | c_int64 | c_size_t | c_uint32 | c_uint64


class Epilogue(IntEnum):
    """What is done to a product (cublasLtEpilogue_t)."""

    GELU = 32 | 128 | 4
    """A bias is added, that is written beside, and GELU of it, by tanh, is the product."""

    GELU_BACKWARD = 64 | 128
    """It is multiplied by GELU's gradient at what was written beside."""


class _Way(ctypes.Structure):
    """A way to compute a product, and what it needs (cublasLtMatmulHeuristicResult_t)."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


@cache
def library() -> ctypes.CDLL:
    """The library as torch has loaded it; RuntimeError where it has not, as without CUDA."""
    try:
        return ctypes.CDLL(f"libcublasLt.so.{str(torch.version.cuda).partition('.')[0]}")
    except OSError:
        raise RuntimeError("torch came without cuBLASLt") from None


@dataclass(frozen=True)
class Factors:
    """x and W of shapes (rows, inner) and (inner, columns), on a device.

    A linear layer has its weight as (columns, inner): forward multiplies by it as it lies there
    ``transposed``, backward by itself. ``alignment``: one of ALIGNMENTS that all tensors have.
    """

    rows: int
    inner: int
    columns: int
    transposed: bool
    device: int
    alignment: int = ALIGNMENTS[0]


class Product:
    """Products x W through an epilogue; RuntimeError where cuBLASLt cannot do it."""

    def __init__(self, epilogue: Epilogue, of: Factors) -> None:
        rows, inner, columns, transposed = of.rows, of.inner, of.columns, of.transposed
        self._library, self._handle, self._device = library(), _handle(of.device), of.device
        self._description, self._described = c_void_p(), Lock()
        self._call("MatmulDescCreate", byref(self._description), _SUMMED_IN_FP32, _FP32)
        # cuBLASLt reads rows as columns, so to it all matrices are transposed: it is asked for the
        # product of W's transpose and x's.
        self._set(_TRANSPOSE_FIRST, c_int(transposed))
        self._set(_EPILOGUE, c_uint32(epilogue))
        self._set(_BESIDE_STRIDE, c_int64(columns))
        self._set(_BESIDE, c_uint64(of.alignment))  # any address that is: ways are chosen by that
        if epilogue is Epilogue.GELU:
            self._set(_BIAS, c_uint64(of.alignment))
        self._weight = self._layout(inner, columns) if transposed else self._layout(columns, inner)
        self._x, self._out = self._layout(inner, rows), self._layout(columns, rows)
        self._ways = self._proposed(of.alignment)
        self._fastest: _Way | None = None

    def __call__(
        self, x: Tensor, weight: Tensor, out: Tensor, beside: Tensor, bias: Tensor | None = None
    ) -> None:
        """Compute it into ``out`` on the current stream, with what is written or read beside.

        The first time it is computed in every way that cuBLASLt proposes, from then on in the one
        that was the fastest: its own first choice may take a quarter longer.
        """
        _, stream = compat.current_stream()
        space, product = _workspace(self._device, stream), c_void_p(out.data_ptr())

        def run(way: _Way) -> None:
            self._call(
                "Matmul",
                self._handle,
                self._description,
                byref(_ONE),
                c_void_p(weight.data_ptr()),
                self._weight,
                c_void_p(x.data_ptr()),
                self._x,
                byref(_ZERO),
                product,
                self._out,
                product,
                self._out,
                byref(way),
                c_void_p(space.data_ptr()),
                c_size_t(_WORKSPACE_BYTES),
                c_void_p(stream),
            )

        with self._described:  # with what another thread multiplies it would be another product
            self._set(_BESIDE, c_uint64(beside.data_ptr()))
            if bias is not None:
                self._set(_BIAS, c_uint64(bias.data_ptr()))
            if self._fastest is None:
                self._fastest = min(self._ways, key=lambda way: _milliseconds(partial(run, way)))
            run(self._fastest)

    def _proposed(self, alignment: int) -> list[_Way]:
        """The ways that cuBLASLt proposes."""
        preference, found, ways = c_void_p(), c_int(), (_Way * _CANDIDATES)()
        self._call("MatmulPreferenceCreate", byref(preference))
        wishes: dict[int, Number] = {_MOST_WORKSPACE: c_size_t(_WORKSPACE_BYTES)}
        wishes |= dict.fromkeys(_LEAST_ALIGNMENTS, c_uint32(alignment))
        for wish, value in wishes.items():
            size = c_size_t(ctypes.sizeof(value))
            self._call("MatmulPreferenceSetAttribute", preference, wish, byref(value), size)
        self._call(
            "MatmulAlgoGetHeuristic",
            self._handle,
            self._description,
            self._weight,
            self._x,
            self._out,
            self._out,
            preference,
            _CANDIDATES,
            ways,
            byref(found),
        )
        self._call("MatmulPreferenceDestroy", preference)
        able = [one for one in ways[: found.value] if one.state == 0]
        if not able:
            raise RuntimeError("cuBLASLt knows no way to compute this product")
        return able

    def _layout(self, rows: int, columns: int) -> c_void_p:
        layout = c_void_p()
        size = c_uint64(rows), c_uint64(columns), c_int64(rows)
        self._call("MatrixLayoutCreate", byref(layout), _BF16, *size)
        return layout

    def _set(self, attribute: int, value: Number) -> None:
        size = c_size_t(ctypes.sizeof(value))
        self._call("MatmulDescSetAttribute", self._description, attribute, byref(value), size)

    def _call(self, name: str, *arguments: object) -> None:
        if status := getattr(self._library, f"cublasLt{name}")(*arguments):
            raise RuntimeError(f"cublasLt{name} failed with status {status}")


def _milliseconds(run: Callable[[], None]) -> float:
    """How long a GPU takes for it, once it has done it before."""
    run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(_TIMES):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


@cache
def _handle(device: int) -> c_void_p:
    """What cuBLASLt keeps of a device, which is the current one."""
    handle = c_void_p()
    if status := library().cublasLtCreate(byref(handle)):
        raise RuntimeError(f"cublasLtCreate failed with status {status} on GPU {device}")
    return handle


@cache
def _workspace(device: int, _: int) -> Tensor:
    """Memory for the products of one stream: those on another may run at the same time."""
    return torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=torch.device("cuda", device))
