/* The module steptime.backend.host._kernel, which _kernel.pyi describes: C that Python calls. */

#include "module.h"

#include <stdlib.h>

#include "collectives.h"

static struct reduction reductions[TYPES * OPERATIONS];

static int watch(void *owner, int waiting) {
    struct progress *progress = owner;
    PyEval_RestoreThread(progress->thread);
    PyObject *answer = NULL;
    if (!PyErr_CheckSignals())
        answer = PyObject_CallMethod(progress->host, "watch", "i", waiting);
    Py_XDECREF(answer);
    progress->thread = PyEval_SaveThread();
    return answer ? 0 : -1;
}

static int map(void *owner, uint64_t offset, struct mapping *mapping) {
    struct progress *progress = owner;
    unsigned long long start = 0, end = 0, address = 0;
    PyEval_RestoreThread(progress->thread);
    PyObject *answer = PyObject_CallMethod(progress->host, "mapping", "iK", mapping->rank,
                                           (unsigned long long)offset);
    int failed = !answer || !PyArg_ParseTuple(answer, "KKK", &start, &end, &address);
    Py_XDECREF(answer);
    progress->thread = PyEval_SaveThread();
    mapping->start = start;
    mapping->end = end;
    mapping->address = (uint8_t *)(uintptr_t)address;
    return failed ? -1 : 0;
}

void progress_begin(struct progress *progress, struct group *group, PyObject *host) {
    progress->host = host;
    group->owner = progress;
    progress->thread = PyEval_SaveThread();
}

void progress_end(struct progress *progress) { PyEval_RestoreThread(progress->thread); }

static void begin(Group *self, struct progress *progress, PyObject *host) {
    progress_begin(progress, &self->group, host);
}

/* True where the call is done, False where the ranks call different things, None where their sizes
   take more than the kernel. */
static PyObject *end(struct progress *progress, enum outcome outcome) {
    progress_end(progress);
    if (outcome == BROKEN) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    if (outcome == UNEVEN) Py_RETURN_NONE;
    return PyBool_FromLong(outcome == DONE);
}

static PyObject *group_step(Group *self, PyObject *host) {
    struct progress progress;
    begin(self, &progress, host);
    return end(&progress, pass(&self->group));
}

static PyObject *group_arrive(Group *self, PyObject *const *given, Py_ssize_t count) {
    if (!arguments(count, 2)) return NULL;
    const char *call = PyBytes_AsString(given[1]);
    if (!call) return NULL;
    struct progress progress;
    begin(self, &progress, given[0]);
    return end(&progress, arrive(&self->group, call, CLOSED, 0));
}

const struct reduction *reduction_numbered(long code) {
    return &reductions[code % (TYPES * OPERATIONS)];
}

static const struct reduction *reduction_at(PyObject *code) {
    return reduction_numbered(PyLong_AsLong(code));
}

static PyObject *group_reduce(Group *self, PyObject *const *given, Py_ssize_t count) {
    if (!arguments(count, 7)) return NULL;
    const char *call = PyBytes_AsString(given[1]);
    uint8_t *data = pointer(given[2]);
    size_t elements = PyLong_AsSize_t(given[3]);
    const struct reduction *by = reduction_at(given[4]);
    int root = (int)PyLong_AsLong(given[5]);
    uint64_t where = PyLong_AsUnsignedLongLong(given[6]);
    if (PyErr_Occurred()) return NULL;
    struct progress progress;
    begin(self, &progress, given[0]);
    return end(&progress, reduce_to(&self->group, call, data, elements, by, root, where));
}

/* The numbers in a tuple, one for each rank; 0 where it is none. */
static int numbers(const Group *self, PyObject *tuple, uint64_t *found) {
    if (PyTuple_Size(tuple) != self->group.ranks) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a number for each rank, please");
        return 0;
    }
    for (int rank = 0; rank < self->group.ranks; rank++)
        found[rank] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, rank));
    return !PyErr_Occurred();
}

/* The addresses in a tuple, one for each rank; 0 where it is none. */
static int addresses(const Group *self, PyObject *parts, uint8_t **found) {
    uint64_t places[MOST_RANKS];
    if (!numbers(self, parts, places)) return 0;
    for (int rank = 0; rank < self->group.ranks; rank++)
        found[rank] = (uint8_t *)(uintptr_t)places[rank];
    return 1;
}

static PyObject *group_broadcast(Group *self, PyObject *const *given, Py_ssize_t count) {
    if (!arguments(count, 6)) return NULL;
    const char *call = PyBytes_AsString(given[1]);
    uint8_t *data = pointer(given[2]);
    size_t bytes = PyLong_AsSize_t(given[3]);
    int root = (int)PyLong_AsLong(given[4]);
    uint64_t where = PyLong_AsUnsignedLongLong(given[5]);
    if (PyErr_Occurred()) return NULL;
    struct progress progress;
    begin(self, &progress, given[0]);
    return end(&progress, broadcast(&self->group, call, data, bytes, root, where));
}

static PyObject *group_gather(Group *self, PyObject *const *given, Py_ssize_t count) {
    uint8_t *outputs[MOST_RANKS];
    if (!arguments(count, 6)) return NULL;
    const char *call = PyBytes_AsString(given[1]);
    uint8_t *source = pointer(given[3]);
    size_t bytes = PyLong_AsSize_t(given[4]);
    uint64_t where = PyLong_AsUnsignedLongLong(given[5]);
    int takes = given[2] != Py_None;
    if (PyErr_Occurred() || (takes && !addresses(self, given[2], outputs))) return NULL;
    struct progress progress;
    begin(self, &progress, given[0]);
    uint8_t *const *targets = takes ? outputs : NULL;
    return end(&progress, gather(&self->group, call, targets, source, bytes, where));
}

static PyObject *group_scatter(Group *self, PyObject *const *given, Py_ssize_t count) {
    uint8_t *inputs[MOST_RANKS];
    uint64_t places[MOST_RANKS];
    if (!arguments(count, 7)) return NULL;
    const char *call = PyBytes_AsString(given[1]);
    uint8_t *output = pointer(given[2]);
    size_t bytes = PyLong_AsSize_t(given[5]);
    int root = (int)PyLong_AsLong(given[6]), gives = given[3] != Py_None;
    if (PyErr_Occurred()) return NULL;
    if (gives && !(addresses(self, given[3], inputs) && numbers(self, given[4], places)))
        return NULL;
    if (root < 0 || root >= self->group.ranks || (root == self->group.rank && !gives)) {
        PyErr_SetString(PyExc_ValueError, "a root that gives something, please");
        return NULL;
    }
    struct progress progress;
    begin(self, &progress, given[0]);
    return end(&progress, scatter(&self->group, call, output, inputs, places, bytes, root));
}

static PyObject *group_reduce_scatter(Group *self, PyObject *const *given, Py_ssize_t count) {
    uint8_t *inputs[MOST_RANKS];
    if (!arguments(count, 7)) return NULL;
    const char *call = PyBytes_AsString(given[1]);
    uint8_t *output = pointer(given[2]);
    size_t elements = PyLong_AsSize_t(given[4]);
    const struct reduction *by = reduction_at(given[5]);
    uint64_t where = PyLong_AsUnsignedLongLong(given[6]);
    if (PyErr_Occurred() || !addresses(self, given[3], inputs)) return NULL;
    struct progress progress;
    begin(self, &progress, given[0]);
    return end(&progress,
               reduce_scatter(&self->group, call, output, inputs, elements, by, where));
}

static PyObject *group_all_to_all(Group *self, PyObject *const *given, Py_ssize_t count) {
    uint8_t *outputs[MOST_RANKS], *inputs[MOST_RANKS];
    if (!arguments(count, 6)) return NULL;
    const char *call = PyBytes_AsString(given[1]);
    uint64_t bytes = PyLong_AsUnsignedLongLong(given[4]);
    uint64_t where = PyLong_AsUnsignedLongLong(given[5]);
    if (PyErr_Occurred() || !addresses(self, given[2], outputs) ||
        !addresses(self, given[3], inputs))
        return NULL;
    struct progress progress;
    begin(self, &progress, given[0]);
    return end(&progress, all_to_all(&self->group, call, outputs, inputs, bytes, where));
}

static PyObject *group_exchange(Group *self, PyObject *const *given, Py_ssize_t count) {
    uint8_t *outputs[MOST_RANKS], *inputs[MOST_RANKS];
    uint64_t sent[MOST_RANKS], expected[MOST_RANKS], places[MOST_RANKS];
    struct share shares[MOST_RANKS];
    if (!arguments(count, 6) || !addresses(self, given[1], outputs) ||
        !addresses(self, given[2], inputs) || !numbers(self, given[3], sent) ||
        !numbers(self, given[4], expected) || !numbers(self, given[5], places))
        return NULL;
    for (int rank = 0; rank < self->group.ranks; rank++)
        shares[rank] = (struct share){places[rank], sent[rank], expected[rank]};
    struct progress progress;
    begin(self, &progress, given[0]);
    return end(&progress, exchange(&self->group, outputs, inputs, shares));
}

static PyObject *group_wake(Group *self, PyObject *none) {
    (void)none;
    wake(&self->group);
    Py_RETURN_NONE;
}

static PyObject *group_new(PyTypeObject *type, PyObject *given, PyObject *named) {
    static char *names[] = {"rank", "ranks", "looks", "words", "slots", "slot_bytes", NULL};
    unsigned long long words, slots, slot_bytes;
    int rank, ranks, looks;
    if (!PyArg_ParseTupleAndKeywords(given, named, "iiiKKK", names, &rank, &ranks, &looks, &words,
                                     &slots, &slot_bytes))
        return NULL;
    if (ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks) {
        PyErr_Format(PyExc_ValueError, "a group has up to %d ranks, not %d", MOST_RANKS, ranks);
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Group *self = (Group *)allocate(type, 0);
    if (!self) return NULL;
    word *counters = (word *)(uintptr_t)words, *sleeping = counters + (size_t)ranks * LINE;
    self->group = (struct group){
        .rank = rank,
        .ranks = ranks,
        .looks = looks,
        .counters = counters,
        .sleeping = sleeping,
        .calls = sleeping + (ranks + LINE - 1) / LINE * LINE,
        .slots = (uint8_t *)(uintptr_t)slots,
        .slot_bytes = slot_bytes,
        .watch = watch,
        .map = map,
    };
    return (PyObject *)self;
}

static void group_dealloc(Group *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    free(self->group.mappings);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"step", (PyCFunction)group_step, METH_O, NULL},
    {"arrive", (PyCFunction)(void (*)(void))group_arrive, METH_FASTCALL, NULL},
    {"reduce", (PyCFunction)(void (*)(void))group_reduce, METH_FASTCALL, NULL},
    {"broadcast", (PyCFunction)(void (*)(void))group_broadcast, METH_FASTCALL, NULL},
    {"gather", (PyCFunction)(void (*)(void))group_gather, METH_FASTCALL, NULL},
    {"scatter", (PyCFunction)(void (*)(void))group_scatter, METH_FASTCALL, NULL},
    {"reduce_scatter", (PyCFunction)(void (*)(void))group_reduce_scatter, METH_FASTCALL, NULL},
    {"all_to_all", (PyCFunction)(void (*)(void))group_all_to_all, METH_FASTCALL, NULL},
    {"exchange", (PyCFunction)(void (*)(void))group_exchange, METH_FASTCALL, NULL},
    {"wake", (PyCFunction)group_wake, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"count", T_ULONGLONG, offsetof(Group, group.count), READONLY, NULL},
    {"number", T_ULONGLONG, offsetof(Group, group.number), READONLY, NULL},
    {"turn", T_ULONGLONG, offsetof(Group, group.turn), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, group_new},
    {Py_tp_dealloc, group_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec spec = {"steptime.backend.host._kernel.Group", sizeof(Group), 0,
                           Py_TPFLAGS_DEFAULT, slots};

static int add_type(PyObject *module, const char *name, PyType_Spec *of) {
    PyObject *type = PyType_FromSpec(of);
    if (!type) return -1;
    int failed = PyModule_AddObjectRef(module, name, type);
    Py_DECREF(type);
    return failed;
}

static int execute(PyObject *module) {
    for (int type = 0; type < TYPES; type++)
        for (int operation = 0; operation < OPERATIONS; operation++)
            reductions[type * OPERATIONS + operation] = reduction_of(type, operation);
    return tensors_begin() || turns_begin() || quick_begin() || route_begin() ||
           add_type(module, "Group", &spec) ||
           add_type(module, "Channel", &channel_spec) || add_type(module, "Quick", &quick_spec) ||
           add_type(module, "Route", &route_spec) ||
           PyModule_AddStringConstant(module, "INSTRUCTIONS", instructions()) ||
           PyModule_AddIntConstant(module, "OPERATIONS", OPERATIONS);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernel", NULL, 0, socket_methods, module_slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&definition); }
