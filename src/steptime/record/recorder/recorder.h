/* What the files of the module steptime.record._recorder share. */

#ifndef STEPTIME_RECORDER_H
#define STEPTIME_RECORDER_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <time.h>

#include "event.h"

#ifndef __linux__
#error "elsewhere perf_counter is another clock than this one"
#endif

typedef struct {
    PyObject_HEAD
    PyObject *grow; /* called with a number for which there is no room, to make some */
    struct event *map;
    int64_t room, next; /* for how many events there is room; the number of the next one */
    uint64_t generation; /* of the threads' numbers */
    uint16_t threads;
} Rows;

/* Marks of a GPU, by their numbers; marks.c. */
typedef struct Marks Marks;

/* The names of attributes, each once. */
#define NAMES                                                                                        \
    X(inside) X(waiting) X(work) X(at_once) X(returned) X(reduction) X(dtype) X(shape)               \
    X(is_contiguous) X(is_sparse) X(data_ptr) X(co_filename) X(f_back) X(marks) X(take)              \
    X(keep) X(asyncOp) X(rootRank) X(reduceOp) X(op) X(is_completed)

extern struct names {
#define X(name) PyObject *name;
    NAMES
#undef X
} names;

extern PyType_Spec rows_spec, kernel_spec, method_spec, wait_spec, marks_spec;
extern PyTypeObject *marks_type;

enum { OVER = -2 }; /* as calls.py has it */

extern const struct recorder_functions functions;
/* The number of the innermost place of the script, for an object of the type Kernel. */
int64_t kernel_site(PyObject *kernel);
/* Fill in what a call is called with, in which group, by a reduction of that name. */
int kernel_describe(PyObject *kernel, PyObject *group, PyObject *arguments, PyObject *name,
                    struct event *event);

/* The event that was drawn for a call, which is written down; -1 with an exception set. */
int64_t rows_write(Rows *rows, const struct event *event);
void rows_waited(Rows *rows, int64_t number, int64_t begin, int64_t end);
void rows_waited_at_once(Rows *rows, int64_t number, int64_t returned, int64_t end);

void rows_came_back(Rows *rows, int64_t number, int64_t when);
/* An event that is written down; NULL where there was no room for it. */
struct event *rows_at(Rows *rows, int64_t number);
void rows_end_anywhere(Rows *rows, uint64_t generation, int64_t number, int64_t when);

void rows_at_fork(void); /* once */

/* A mark of where this thread is on its stream of a GPU; NO_MARK where it can have none, or with an
   exception set. */
int marks_take(Marks *marks);
/* Write a mark down, once the GPU has passed it, as that of a time of an event. */
void marks_keep(Marks *marks, int64_t event, int time, int mark);

/* ``time.perf_counter_ns`` */
static inline int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The type of methods of an object. */
extern PyObject *method_type;

/* What stands for a method in a class: itself, or bound to an object of that. */
static inline PyObject *bound_to(PyObject *self, PyObject *object) {
    if (!object) return Py_NewRef(self);
    return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
}

/* An attribute of itself, or of what it stands for: programs ask every method that they wrap. */
static inline PyObject *attribute_of(PyObject *self, PyObject *otherwise, PyObject *name) {
    PyObject *own = PyObject_GenericGetAttr(self, name);
    if (own || !otherwise || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
    PyErr_Clear();
    return PyObject_GetAttr(otherwise, name);
}

static inline int set_long(PyObject *object, PyObject *name, int64_t value) {
    PyObject *number = PyLong_FromLongLong(value);
    int failed = !number || PyObject_SetAttr(object, name, number);
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

#endif
