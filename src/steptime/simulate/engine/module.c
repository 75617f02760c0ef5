/* The module steptime.simulate._engine, which _engine.pyi describes.
 *
 * Arrays come by the buffer protocol and are held until the function returns. Python's lock is let
 * go meanwhile: no two threads may have one simulation.
 */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "division.h"
#include "recurrence.h"
#include "rounds.h"
#include "streams.h"
#include "unshared.h"

enum { MOST = 64 }; /* arrays of one call */

/* A call: its arguments, of which next is to be read, and the arrays among those read. */
struct call {
    PyObject *args;
    Py_ssize_t next;
    Py_buffer views[MOST];
    struct table tables[MOST];
    int size;
    bool failed; /* with an exception set: nothing is read any more */
};

/* The items that a struct of tables has, in bytes, each; 0 after the last. */
static const size_t of_network[] = {NETWORK(ITEM) 0}, of_moves[] = {MOVES(ITEM) 0},
                    of_progress[] = {PROGRESS(ITEM) 0}, of_batch[] = {BATCH(ITEM) 0},
                    of_scratch[] = {SCRATCH(ITEM) 0}, of_queues[] = {QUEUES(ITEM) 0},
                    of_tasks[] = {TASKS(ITEM) 0}, of_parts[] = {PARTS(ITEM) 0},
                    of_streams[] = {STREAMS(ITEM) 0}, of_prices[] = {PRICES(ITEM) 0},
                    of_calls[] = {CALLS(ITEM) 0}, of_todo[] = {TODO(ITEM) 0},
                    of_here[] = {HERE(ITEM) 0}, of_costs[] = {COSTS(ITEM) 0},
                    of_cores[] = {CORES(ITEM) 0};

/* The next argument; NULL when the call failed before or has no more. */
static PyObject *next_of(struct call *call) {
    PyObject *given = call->failed ? NULL : PyTuple_GetItem(call->args, call->next++);
    call->failed = !given;
    return given;
}

/* Hold an array whose items take so many bytes; NULL where that failed. */
static struct table *hold(struct call *call, PyObject *given, size_t item) {
    Py_buffer *view = call->views + call->size;
    call->failed = true;
    if (PyObject_GetBuffer(given, view, PyBUF_C_CONTIGUOUS)) return NULL;
    struct table *table = call->tables + call->size++;
    if (view->ndim < 1 || view->ndim > 2 || (size_t)view->itemsize != item) {
        PyErr_Format(PyExc_TypeError, "an array of %d dimensions has items of %zd bytes, not of %zd",
                     view->ndim, view->itemsize, (Py_ssize_t)item);
        return NULL;
    }
    *table = (struct table){view->buf, view->shape[0], view->ndim == 2 ? view->shape[1] : 1};
    call->failed = false;
    return table;
}

/* The next argument as an array, whose items take so many bytes. */
static struct table *array(struct call *call, size_t item) {
    PyObject *given = next_of(call);
    return given ? hold(call, given, item) : NULL;
}

static void *items(struct call *call, size_t item) {
    struct table *table = array(call, item);
    return table ? table->at : NULL;
}

static struct times *times(struct call *call) { return (void *)array(call, sizeof(double)); }

/* The next argument, a tuple of arrays, as a struct of their tables. */
static void *arrays(struct call *call, const size_t *sizes) {
    PyObject *given = next_of(call);
    if (!given) return NULL;
    struct table *first = call->tables + call->size;
    Py_ssize_t expected = 0;
    while (sizes[expected]) expected++;
    if (PyTuple_Size(given) != expected) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "it takes a tuple of %zd arrays", expected);
        call->failed = true;
        return NULL;
    }
    for (Py_ssize_t at = 0; at < expected; at++)
        if (!hold(call, PyTuple_GetItem(given, at), sizes[at])) return NULL;
    return first;
}

static int64_t whole(struct call *call) {
    PyObject *given = next_of(call);
    if (!given) return 0;
    int64_t number = PyLong_AsLongLong(given);
    call->failed = PyErr_Occurred() != NULL;
    return number;
}

static double real(struct call *call) {
    PyObject *given = next_of(call);
    if (!given) return 0;
    double number = PyFloat_AsDouble(given);
    call->failed = PyErr_Occurred() != NULL;
    return number;
}

static bool truth(struct call *call) {
    PyObject *given = next_of(call);
    if (!given) return false;
    int true_or_not = PyObject_IsTrue(given);
    call->failed = true_or_not < 0;
    return true_or_not > 0;
}

/* Let go of what a call holds; returns what it returns, NULL if it failed. */
static PyObject *release(struct call *call, int64_t answer) {
    while (call->size) PyBuffer_Release(call->views + --call->size);
    return call->failed ? NULL : PyLong_FromLongLong(answer);
}

/* Where all arguments could be read, do it, without Python's lock. */
#define UNLOCKED(call, ...)         \
    if (!(call).failed) {           \
        Py_BEGIN_ALLOW_THREADS;     \
        __VA_ARGS__;                \
        Py_END_ALLOW_THREADS;       \
    }

static PyObject *run_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct network *net = arrays(&call, of_network);
    struct table *parts = array(&call, sizeof(int32_t));
    double *at = items(&call, sizeof(double)), until = real(&call);
    bool stop = truth(&call);
    int reason = 0;
    UNLOCKED(call, reason = run(net, parts->at, at, parts->rows, until, stop))
    return release(&call, reason);
}

static PyObject *dispatch_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct network *net = arrays(&call, of_network);
    struct table *tokens = array(&call, sizeof(int64_t));
    double *start = items(&call, sizeof(double));
    struct moves *moves = arrays(&call, of_moves);
    UNLOCKED(call, dispatch(net, tokens->at, start, tokens->rows, moves))
    return release(&call, 0);
}

static PyObject *append_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct network *net = arrays(&call, of_network);
    int64_t base = whole(&call);
    struct moves *moves = arrays(&call, of_moves);
    int64_t first = whole(&call), past = whole(&call);
    UNLOCKED(call, append(net, base, moves, first, past))
    return release(&call, 0);
}

static PyObject *tally_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct network *net = arrays(&call, of_network);
    UNLOCKED(call, tally(net))
    return release(&call, 0);
}

static PyObject *follow_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct network *net = arrays(&call, of_network);
    struct moves *moves = arrays(&call, of_moves);
    struct progress *progress = arrays(&call, of_progress);
    bool last = truth(&call), followed = false;
    UNLOCKED(call, followed = follow(net, moves, progress, last))
    return release(&call, followed);
}

static PyObject *gather_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct transfer *transfers = items(&call, sizeof(struct transfer));
    struct table *bounds = array(&call, sizeof(int64_t));
    int64_t first = whole(&call), *offsets = items(&call, sizeof(int64_t)), count = 0;
    bool inside = truth(&call);
    struct batch *batch = arrays(&call, of_batch);
    struct scratch *scratch = arrays(&call, of_scratch);
    UNLOCKED(call, count = gather(transfers, bounds->at, bounds->rows - 1, first, offsets, inside,
                                  batch, scratch))
    return release(&call, count);
}

static PyObject *make_moves_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct batch *batch = arrays(&call, of_batch);
    int32_t *devices = items(&call, sizeof(int32_t));
    struct costs *costs = arrays(&call, of_costs);
    double rate = real(&call);
    struct move *rows = items(&call, sizeof(struct move));
    UNLOCKED(call, make_moves(batch, devices, costs, rate, rows))
    return release(&call, 0);
}

static PyObject *give_rows_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct network *net = arrays(&call, of_network);
    struct table *paths = array(&call, sizeof(int32_t));
    UNLOCKED(call, give_rows(net, paths->at, paths->rows * paths->width))
    return release(&call, 0);
}

static PyObject *run_streams_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct network *net = arrays(&call, of_network);
    struct queues *queues = arrays(&call, of_queues);
    struct parts *parts = arrays(&call, of_parts);
    struct tasks *tasks = arrays(&call, of_tasks);
    struct moves *moves = arrays(&call, of_moves);
    struct streams *streams = arrays(&call, of_streams);
    struct cores *cores = arrays(&call, of_cores);
    struct times *ends = times(&call);
    int reason = 0;
    UNLOCKED(call, reason = run_streams(net, queues, parts, tasks, moves, streams, cores, ends))
    return release(&call, reason);
}

static PyObject *run_step_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct queues *queues = arrays(&call, of_queues);
    struct prices *prices = arrays(&call, of_prices);
    struct calls *calls = arrays(&call, of_calls);
    struct todo *todo = arrays(&call, of_todo);
    struct step step = {.done = items(&call, sizeof(int64_t))};
    step.free = items(&call, sizeof(double));
    step.before = items(&call, sizeof(double));
    step.ends = items(&call, sizeof(double));
    UNLOCKED(call, run_step(queues, prices, calls, todo, step))
    return release(&call, 0);
}

static PyObject *fill_starts_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct queues *queues = arrays(&call, of_queues);
    struct times *ends = times(&call);
    int64_t rank = whole(&call);
    struct times *starts = times(&call);
    UNLOCKED(call, fill_starts(queues, ends, rank, starts))
    return release(&call, 0);
}

static PyObject *fill_starts_of_calls_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct queues *queues = arrays(&call, of_queues);
    struct times *ends = times(&call), *scratch = times(&call), *starts = times(&call);
    UNLOCKED(call, fill_starts_of_calls(queues, ends, scratch, starts))
    return release(&call, 0);
}

static PyObject *divide_in(PyObject *module, PyObject *args) {
    struct call call = {.args = args};
    struct queues *queues = arrays(&call, of_queues);
    uint8_t *phase = items(&call, sizeof(uint8_t));
    struct times *ready = times(&call), *ends = times(&call);
    struct table *begin = array(&call, sizeof(double));
    double *finish = items(&call, sizeof(double));
    struct here *here = arrays(&call, of_here);
    struct times *starts = times(&call);
    double *totals = items(&call, sizeof(double));
    UNLOCKED(call, divide(queues, phase, ready, ends, begin->at, finish, begin->rows, here, starts,
                          totals))
    return release(&call, 0);
}

static PyMethodDef functions[] = {
    {"run", run_in, METH_VARARGS, NULL},
    {"dispatch", dispatch_in, METH_VARARGS, NULL},
    {"append", append_in, METH_VARARGS, NULL},
    {"tally", tally_in, METH_VARARGS, NULL},
    {"follow", follow_in, METH_VARARGS, NULL},
    {"gather", gather_in, METH_VARARGS, NULL},
    {"make_moves", make_moves_in, METH_VARARGS, NULL},
    {"give_rows", give_rows_in, METH_VARARGS, NULL},
    {"run_streams", run_streams_in, METH_VARARGS, NULL},
    {"run_step", run_step_in, METH_VARARGS, NULL},
    {"fill_starts", fill_starts_in, METH_VARARGS, NULL},
    {"fill_starts_of_calls", fill_starts_of_calls_in, METH_VARARGS, NULL},
    {"divide", divide_in, METH_VARARGS, NULL},
    {0},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "steptime.simulate._engine",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__engine(void) { return PyModuleDef_Init(&module); }
