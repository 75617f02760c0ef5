"""Tables: how compiled functions take many arrays by one pointer.

Numba passes an array as seven values and a tuple of twenty arrays as all of theirs, to every
function and at every call of one: compiling that took most of the time of a first simulation. A
class of arrays that is ``by_pointer`` is one pointer to the addresses and sizes of its arrays
instead. In compiled code ``net.flows[number]`` reads as before; an index is not checked, and none
counts from the end.
"""

import operator
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import from_dtype

from steptime.arrays import Longs

Class = TypeVar("Class", bound=type)
_WORDS = 3  # of each array: its address, how many rows it has, and items of a row
_ATTRIBUTE = "words"  # of a class that is by pointer
_VERSION = sha256(Path(__file__).read_bytes()).hexdigest()[
    :12
]  # of what kept code has of this file
_item_types: dict[np.dtype[Any], types.Type] = {}


class Tables(types.Type):
    """A pointer to the words of some arrays; ``fields``: the Table of each by its name."""

    def __init__(self, label: str, fields: tuple[tuple[str, "Table"], ...]) -> None:
        self.fields = dict(fields)
        tables = ", ".join(f"{name}: {one}" for name, one in fields)
        super().__init__(f"{label}_{_VERSION}({tables})")


class Table(types.Type):
    """An array of one or two dimensions, whose rows lie one after the other."""

    def __init__(self, item: types.Type, ndim: int) -> None:
        self.item, self.ndim = item, ndim
        super().__init__(f"Table({item}, {ndim})")


@register_model(Tables)
class _TablesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, of: Tables) -> None:
        super().__init__(manager, of, ir.IntType(64).as_pointer())


@register_model(Table)
class _TableModel(models.StructModel):
    def __init__(self, manager: Any, of: Table) -> None:
        words = [("address", types.int64), ("rows", types.int64), ("width", types.int64)]
        super().__init__(manager, of, words)


def by_pointer(arrays: Class) -> Class:
    """Let compiled functions take this class, a NamedTuple of arrays alone, by one pointer."""
    typeof_impl.register(arrays)(_type_of)
    setattr(arrays, _ATTRIBUTE, property(_words_of))
    return arrays


def _type_of(value: Any, _: Any) -> Tables:
    fields = dict(zip(value._fields, value, strict=True))
    for name, array in fields.items():
        if not array.flags.c_contiguous:
            raise ValueError(f"the items of {name} do not lie one after the other")
    tables = ((name, Table(_item_type(one.dtype), one.ndim)) for name, one in fields.items())
    return Tables(type(value).__name__, tuple(tables))


def _item_type(dtype: np.dtype[Any]) -> types.Type:
    if dtype not in _item_types:
        _item_types[dtype] = from_dtype(dtype)
    return _item_types[dtype]


def _words_of(arrays: Any) -> Longs:
    """The words of some arrays, shape (3 * arrays,)."""
    words = []
    for array in arrays:
        width = array.shape[1] if array.ndim == 2 else 1
        words += [array.ctypes.data, len(array), width]
    return np.array(words, np.int64)


@unbox(Tables)
def _unbox(of: Tables, value: Any, c: Any) -> NativeValue:
    """Ask for the words, and hold them until the compiled function has returned."""
    words = c.pyapi.object_getattr_string(value, _ATTRIBUTE)
    longs = types.Array(types.int64, 1, "C")
    failed = cgutils.is_null(c.builder, words)
    place = cgutils.alloca_once_value(c.builder, c.context.get_constant_null(of))
    with c.builder.if_then(c.builder.not_(failed)):
        array = c.context.make_array(longs)(c.context, c.builder, c.unbox(longs, words).value)
        c.builder.store(array.data, place)

    def release() -> None:
        c.pyapi.decref(words)

    return NativeValue(c.builder.load(place), is_error=failed, cleanup=release)


@infer_getattr
class _Shape(AttributeTemplate):
    key = Table

    def resolve_shape(self, of: Table) -> types.Type:
        return types.UniTuple(types.intp, of.ndim)

    def resolve_size(self, _of: Table) -> types.Type:
        return types.intp


@lower_getattr(Table, "shape")
def _shape(context: Any, builder: Any, of: Table, value: Any) -> Any:
    table = cgutils.create_struct_proxy(of)(context, builder, value)
    sizes = (table.rows, table.width)[: of.ndim]
    return context.make_tuple(builder, types.UniTuple(types.intp, of.ndim), sizes)


@lower_getattr(Table, "size")
def _size(context: Any, builder: Any, of: Table, value: Any) -> Any:
    table = cgutils.create_struct_proxy(of)(context, builder, value)
    return builder.mul(table.rows, table.width)


@infer_getattr
class _Attribute(AttributeTemplate):
    key = Tables

    def generic_resolve(self, of: Any, name: str) -> Any:
        return of.fields.get(name)


@lower_getattr_generic(Tables)
def _attribute(context: Any, builder: Any, of: Tables, value: Any, name: str) -> Any:
    table = cgutils.create_struct_proxy(of.fields[name])(context, builder)
    first = _WORDS * list(of.fields).index(name)
    for number, word in enumerate(("address", "rows", "width")):
        place = builder.gep(value, [ir.Constant(ir.IntType(64), first + number)])
        setattr(table, word, builder.load(place))
    return table._getvalue()


def _index(table: Any, index: Any) -> types.Type | None:
    """The type to which an index of a Table is cast, if it can be one."""
    if not isinstance(table, Table):
        return None
    if isinstance(index, types.Integer):
        return types.intp
    pair = isinstance(index, types.BaseTuple) and len(index) == 2 == table.ndim
    return types.UniTuple(types.intp, 2) if pair else None


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, _: Any) -> Any:
        table, index = args
        if (cast := _index(table, index)) is None:
            return None
        row = table.ndim == 2 and cast is types.intp
        return signature(Table(table.item, 1) if row else table.item, table, cast)


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, _: Any) -> Any:
        table, index, _value = args
        cast = _index(table, index)
        return None if cast is None else signature(types.none, table, cast, table.item)


@infer_global(len)
class _Length(AbstractTemplate):
    def generic(self, args: Any, _: Any) -> Any:
        return signature(types.intp, *args) if isinstance(args[0], Table) else None


def _address(context: Any, builder: Any, table: Any, of: Table, index: Any) -> Any:
    """The address of an item, or of a row."""
    if isinstance(index.type, ir.BaseStructType | ir.ArrayType):
        row, column = cgutils.unpack_tuple(builder, index, 2)
        number = builder.add(builder.mul(row, table.width), column)
    else:
        number = builder.mul(index, table.width) if of.ndim == 2 else index
    size = context.get_abi_sizeof(context.get_data_type(of.item))
    bytes_before = builder.mul(number, ir.Constant(ir.IntType(64), size))
    return builder.add(table.address, bytes_before)


@lower_builtin(operator.getitem, Table, types.intp)
@lower_builtin(operator.getitem, Table, types.UniTuple(types.intp, 2))
def _get_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    of = sig.args[0]
    table = cgutils.create_struct_proxy(of)(context, builder, args[0])
    address = _address(context, builder, table, of, args[1])
    if isinstance(sig.return_type, Table):
        row = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        row.address, row.rows, row.width = address, table.width, ir.Constant(ir.IntType(64), 1)
        return row._getvalue()
    if isinstance(of.item, types.Record):
        return builder.inttoptr(address, context.get_value_type(of.item))
    place = builder.inttoptr(address, context.get_data_type(of.item).as_pointer())
    return context.unpack_value(builder, of.item, place)


@lower_builtin(operator.setitem, Table, types.intp, types.Any)
@lower_builtin(operator.setitem, Table, types.UniTuple(types.intp, 2), types.Any)
def _set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    of = sig.args[0]
    table = cgutils.create_struct_proxy(of)(context, builder, args[0])
    address = _address(context, builder, table, of, args[1])
    place = builder.inttoptr(address, context.get_data_type(of.item).as_pointer())
    context.pack_value(builder, of.item, args[2], place)
    return context.get_dummy_value()


@lower_builtin(len, Table)
def _length(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return cgutils.create_struct_proxy(sig.args[0])(context, builder, args[0]).rows
