/* Rows: the events of a mapped file, by their numbers. The interpreter's lock is held throughout,
   but by ``rows_end_anywhere``. */

#define _GNU_SOURCE

#include "recorder.h"

#include <pthread.h>
#include <sys/mman.h>

/* Who has it may move the file in memory, or writes there without the interpreter's lock. */
static pthread_mutex_t moving = PTHREAD_MUTEX_INITIALIZER;

static void hold(void) { pthread_mutex_lock(&moving); }
static void let_go(void) { pthread_mutex_unlock(&moving); }

/* A process that is forked finds it free. */
void rows_at_fork(void) { pthread_atfork(hold, let_go, let_go); }

static uint64_t generations;
static _Thread_local struct {
    uint64_t generation;
    uint16_t number;
} this_thread;

struct event *rows_at(Rows *self, int64_t number) {
    return number < self->room ? self->map + number : NULL;
}

static uint16_t thread(Rows *self) {
    if (this_thread.generation != self->generation) {
        this_thread.generation = self->generation;
        this_thread.number = self->threads++;
    }
    return this_thread.number;
}

int64_t rows_write(Rows *self, const struct event *event) {
    int64_t number = self->next++;
    if (number >= self->room) {
        PyObject *done = PyObject_CallFunction(self->grow, "L", (long long)number);
        if (!done) return -1;
        Py_DECREF(done);
    }
    struct event *at = rows_at(self, number);
    if (at) {
        *at = *event;
        at->thread = thread(self);
    }
    return number;
}

void rows_came_back(Rows *self, int64_t number, int64_t when) {
    struct event *at = rows_at(self, number);
    if (!at) return;
    at->returned = when;
    if (!at->ended) at->ended = when; /* whoever says it first is right */
}

void rows_waited(Rows *self, int64_t number, int64_t begin, int64_t end) {
    struct event *at = rows_at(self, number);
    if (!at) return;
    at->wait_begin = begin;
    at->wait_end = end;
}

void rows_waited_at_once(Rows *self, int64_t number, int64_t returned, int64_t end) {
    struct event *at = rows_at(self, number);
    if (!at) return;
    at->returned = at->wait_begin = returned;
    at->ended = at->wait_end = end;
}

/* The threads of a backend end calls; a fork, or the end of the recording, may be before that. */
void rows_end_anywhere(Rows *self, uint64_t generation, int64_t number, int64_t when) {
    pthread_mutex_lock(&moving);
    struct event *at = self->generation == generation ? rows_at(self, number) : NULL;
    if (at && !at->ended) at->ended = when;
    pthread_mutex_unlock(&moving);
}

static PyObject *rows_write_event(Rows *self, PyObject *given, PyObject *named) {
    static char *names[] = {"kind",  "issued", "returned",  "ended",  "operation", "flags", "group",
                            "peer",  "site",   "signature", "nbytes", "address",   NULL};
    int kind, operation = 0, flags = 0, group = 0, peer = -1;
    unsigned int site = 0, signature = 0;
    long long issued, returned = 0, ended = 0, bytes = 0, address = 0;
    if (!PyArg_ParseTupleAndKeywords(given, named, "iL|LLiiiiIILL", names, &kind, &issued, &returned,
                                     &ended, &operation, &flags, &group, &peer, &site, &signature,
                                     &bytes, &address))
        return NULL;
    struct event event = {
        .kind = (uint8_t)kind,
        .operation = (uint8_t)operation,
        .flags = (uint8_t)flags,
        .group = (uint16_t)group,
        .peer = peer,
        .site = site,
        .signature = signature,
        .bytes = bytes,
        .address = address,
        .issued = issued,
        .returned = returned,
        .ended = ended,
    };
    int64_t number = rows_write(self, &event);
    return number < 0 ? NULL : PyLong_FromLongLong(number);
}

static PyObject *rows_issued(Rows *self, PyObject *number) {
    int64_t wanted = PyLong_AsLongLong(number);
    if (PyErr_Occurred()) return NULL;
    struct event *at = rows_at(self, wanted);
    return PyLong_FromLongLong(at ? at->issued : 0);
}

static PyObject *rows_returned(Rows *self, PyObject *given) {
    long long number, when;
    if (!PyArg_ParseTuple(given, "LL", &number, &when)) return NULL;
    struct event *at = rows_at(self, number);
    if (at) at->returned = when;
    Py_RETURN_NONE;
}

static PyObject *rows_end(Rows *self, PyObject *given) {
    long long number, when;
    if (!PyArg_ParseTuple(given, "LL", &number, &when)) return NULL;
    struct event *at = rows_at(self, number);
    if (at && !at->ended) at->ended = when;
    Py_RETURN_NONE;
}

static PyObject *rows_wait(Rows *self, PyObject *given) {
    long long number, begin, end;
    if (!PyArg_ParseTuple(given, "LLL", &number, &begin, &end)) return NULL;
    rows_waited(self, number, begin, end);
    Py_RETURN_NONE;
}

static PyObject *rows_wait_at_once(Rows *self, PyObject *given) {
    long long number, returned, end;
    if (!PyArg_ParseTuple(given, "LLL", &number, &returned, &end)) return NULL;
    rows_waited_at_once(self, number, returned, end);
    Py_RETURN_NONE;
}

static void unmap(Rows *self) {
    pthread_mutex_lock(&moving);
    if (self->map) munmap(self->map, self->room * sizeof(struct event));
    self->map = NULL;
    self->room = 0;
    pthread_mutex_unlock(&moving);
}

static PyObject *rows_begin(Rows *self, PyObject *given) {
    int file;
    long long room;
    if (!PyArg_ParseTuple(given, "iL", &file, &room)) return NULL;
    unmap(self);
    void *map = mmap(NULL, room * sizeof(struct event), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) return PyErr_SetFromErrno(PyExc_OSError);
    pthread_mutex_lock(&moving);
    self->map = map;
    self->room = room;
    self->next = 0;
    self->threads = 0;
    self->generation = ++generations;
    pthread_mutex_unlock(&moving);
    Py_RETURN_NONE;
}

static PyObject *rows_extend(Rows *self, PyObject *number) {
    int64_t room = PyLong_AsLongLong(number);
    if (PyErr_Occurred()) return NULL;
    size_t size = sizeof(struct event);
    pthread_mutex_lock(&moving);
    void *map = mremap(self->map, self->room * size, room * size, MREMAP_MAYMOVE);
    if (map != MAP_FAILED) {
        self->map = map;
        self->room = room;
    }
    pthread_mutex_unlock(&moving);
    return map == MAP_FAILED ? PyErr_SetFromErrno(PyExc_OSError) : Py_NewRef(Py_None);
}

static int rows_init(Rows *self, PyObject *given, PyObject *named) {
    static char *names[] = {"grow", NULL};
    PyObject *grow;
    if (!PyArg_ParseTupleAndKeywords(given, named, "O", names, &grow)) return -1;
    self->grow = Py_NewRef(grow);
    return 0;
}

static void rows_dealloc(Rows *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    unmap(self);
    Py_XDECREF(self->grow);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef rows_methods[] = {
    {"begin", (PyCFunction)rows_begin, METH_VARARGS, NULL},
    {"extend", (PyCFunction)rows_extend, METH_O, NULL},
    {"write", (PyCFunction)(void (*)(void))rows_write_event, METH_VARARGS | METH_KEYWORDS, NULL},
    {"issued", (PyCFunction)rows_issued, METH_O, NULL},
    {"returned", (PyCFunction)rows_returned, METH_VARARGS, NULL},
    {"end", (PyCFunction)rows_end, METH_VARARGS, NULL},
    {"waited", (PyCFunction)rows_wait, METH_VARARGS, NULL},
    {"waited_at_once", (PyCFunction)rows_wait_at_once, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_init, rows_init},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_methods, rows_methods},
    {0, NULL},
};

PyType_Spec rows_spec = {
    .name = "steptime.record._recorder.Rows",
    .basicsize = sizeof(Rows),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = rows_slots,
};
