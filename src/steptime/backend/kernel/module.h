/* What the files of the module steptime.backend.host._kernel share. */

#ifndef STEPTIME_MODULE_H
#define STEPTIME_MODULE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stdint.h>

#include "channel.h"
#include "folds.h"

typedef struct {
    PyObject_HEAD
    struct group group;
} Group;

typedef struct {
    PyObject_HEAD
    struct channel channel;
} Channel;

extern PyType_Spec channel_spec, quick_spec, route_spec;
extern PyMethodDef socket_methods[];

/* What a file does once, when the module is made; 0, or -1 (an error is set). */
int tensors_begin(void); /* without torch, or with one whose tensors cannot be asked, none is plain */
int turns_begin(void);
int quick_begin(void);
int route_begin(void);

/* A collective in progress: who is asked while it waits, and the thread's state without the lock. */
struct progress {
    PyObject *host;
    PyThreadState *thread;
};

/* Let other threads run while a collective of a group does. */
void progress_begin(struct progress *progress, struct group *group, PyObject *host);

/* The thread goes on with the lock. */
void progress_end(struct progress *progress);

/* How a reduction is done that kernel.py has numbered. */
const struct reduction *reduction_numbered(long code);

static inline int arguments(Py_ssize_t given, Py_ssize_t wanted) {
    if (given == wanted) return 1;
    PyErr_Format(PyExc_TypeError, "%zd arguments are wanted, not %zd", wanted, given);
    return 0;
}

static inline void *pointer(PyObject *number) {
    return (void *)(uintptr_t)PyLong_AsUnsignedLongLong(number);
}

#endif
