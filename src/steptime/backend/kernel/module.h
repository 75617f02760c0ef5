/* What the files of the module steptime.backend.host._kernel share. */

#ifndef STEPTIME_MODULE_H
#define STEPTIME_MODULE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stdint.h>

extern PyType_Spec channel_spec;
extern PyMethodDef socket_methods[];

static inline int arguments(Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 1;
    PyErr_Format(PyExc_TypeError, "%zd arguments are wanted, not %zd", wanted, given);
    return 0;
}

static inline void *pointer(PyObject *number) {
    return (void *)(uintptr_t)PyLong_AsUnsignedLongLong(number);
}

#endif
