/* The type Quick of the module, which _kernel.pyi describes: collectives past Python.

   What Python does for a small all_reduce takes longer than the all_reduce itself: its tensor's
   properties, what the ranks compare, the lane's turn. All of that is found here, for the calls that
   are as most are; any other is left to Python. */

#include <string.h>

#include "call.h"
#include "collectives.h"
#include "tensor.h"
#include "turn.h"

#define SPANS 64 /* of the arena that are known here */
#define PLACED 1024 /* elements; fewer are reduced through slots, wherever they lie */

/* A reduction: its place in folds.h, and how ranks call it. */
struct named {
    long operation;
    char name[NAME_BYTES];
};

/* A part of this process' arena: addresses, and the offset of the first. */
struct span {
    uint8_t *start, *end;
    uint64_t offset;
};

typedef struct {
    PyObject_HEAD
    struct turn turn;
    PyObject *kernel; /* a Kernel, asked while a call waits */
    PyObject *holder; /* the Group that holds this: */
    struct group *group;
    PyObject *failed;   /* called with what a call fails with */
    PyObject *segments; /* of the arena, a list that grows */
    Py_ssize_t known;
    struct span spans[SPANS];
    struct named named[OPERATIONS]; /* by torch's number of the operation */
    uint8_t dtypes[TYPES];          /* as a call has them */
    int32_t names[MOST_RANKS];
} Quick;

static PyObject *is_asynchronous, *reduce_op, *root_rank;

/* Copy the segments of the arena that have come since the last time. */
static void learn(Quick *self) {
    for (; self->known < PyList_Size(self->segments) && self->known < SPANS; self->known++) {
        unsigned long long start, end, offset;
        PyObject *memory, *segment = PyList_GetItem(self->segments, self->known);
        if (!PyArg_ParseTuple(segment, "KKKO", &start, &end, &offset, &memory)) {
            PyErr_Clear();
            return;
        }
        self->spans[self->known] =
            (struct span){(uint8_t *)(uintptr_t)start, (uint8_t *)(uintptr_t)end, offset};
    }
}

/* Where in the arena the byte at an address is; CLOSED where that lies elsewhere, or in a segment for
   which there was no place: then it is read through slots. */
static uint64_t where(Quick *self, const uint8_t *place) {
    learn(self);
    for (Py_ssize_t at = 0; at < self->known; at++) {
        const struct span *span = &self->spans[at];
        if (span->start <= place && place < span->end) return span->offset + (place - span->start);
    }
    return CLOSED;
}

/* Whether no byte lies in both of two spans. */
static int are_apart(const uint8_t *one, size_t bytes, const uint8_t *other, size_t others) {
    return one + bytes <= other || other + others <= one;
}

/* A number that the options of a call have, or -1. */
static long number_of(PyObject *options, PyObject *name) {
    PyObject *found = PyObject_GetAttr(options, name);
    long number = found ? PyLong_AsLong(found) : -1;
    Py_XDECREF(found);
    PyErr_Clear();
    return number;
}

/* torch's number of the operation that the options of a call ask for is its hash; NULL for those that
   Python has to look at. */
static const struct named *reduction_of_options(Quick *self, PyObject *options) {
    PyObject *found = PyObject_GetAttr(options, reduce_op);
    Py_hash_t number = found ? PyObject_Hash(found) : -1;
    Py_XDECREF(found);
    PyErr_Clear();
    return number >= 0 && number < OPERATIONS ? &self->named[number] : NULL;
}

static const struct reduction *folded(const struct named *named, enum type type) {
    if (!named) return NULL;
    const struct reduction *by = reduction_numbered(type * OPERATIONS + named->operation);
    return by->fold ? by : NULL;
}

static struct call call_of(const Quick *self, enum kind kind, enum type type, size_t elements) {
    return (struct call){kind, self->dtypes[type], 0, -1, elements, ""};
}

/* Whether the options ask for a call that is waited for at once. */
static int is_waited_for(PyObject *options) {
    PyObject *found = PyObject_GetAttr(options, is_asynchronous);
    Py_XDECREF(found);
    PyErr_Clear();
    return found == Py_False;
}

static void begin(Quick *self, struct progress *progress) {
    progress_begin(progress, self->group, self->kernel);
}

/* End the turn, with True, or with the error that is set, once the lane and the other ranks know. */
static PyObject *leave(Quick *self) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback); /* nothing may be called while one is set */
    if (type) {
        PyErr_NormalizeException(&type, &error, &traceback);
        Py_XDECREF(PyObject_CallFunctionObjArgs(self->failed, error, NULL));
        PyErr_Clear();
    }
    turn_release(&self->turn);
    if (!type) Py_RETURN_TRUE;
    PyErr_Restore(type, error, traceback);
    return NULL;
}

static PyObject *end(Quick *self, struct progress *progress, enum outcome outcome) {
    progress_end(progress);
    if (outcome == BROKEN && !PyErr_Occurred()) PyErr_NoMemory();
    if (outcome == MISMATCH) Py_XDECREF(PyObject_CallMethod(self->kernel, "refuse", NULL));
    return leave(self);
}

static PyObject *all_reduce(Quick *self, PyObject *const *given, Py_ssize_t count) {
    struct vector tensor;
    struct progress progress;
    if (!arguments(count, 2)) return NULL;
    if (!is_one_plain(given[0], &tensor) || !is_waited_for(given[1])) Py_RETURN_FALSE;
    const struct named *named = reduction_of_options(self, given[1]);
    const struct reduction *by = folded(named, tensor.type);
    if (!by || !turn_takes(&self->turn)) Py_RETURN_FALSE;
    struct call call = call_of(self, ALL_REDUCE, tensor.type, tensor.elements);
    memcpy(call.name, named->name, NAME_BYTES);
    uint64_t place = tensor.elements < PLACED ? CLOSED : where(self, tensor.data);
    begin(self, &progress);
    return end(self, &progress, reduce_to(self->group, &call, tensor.data, tensor.elements, by,
                                          EVERYONE, place));
}

static PyObject *quick_broadcast(Quick *self, PyObject *const *given, Py_ssize_t count) {
    struct vector tensor;
    struct progress progress;
    if (!arguments(count, 2)) return NULL;
    if (!is_one_plain(given[0], &tensor) || !is_waited_for(given[1])) Py_RETURN_FALSE;
    long root = number_of(given[1], root_rank);
    if (root < 0 || root >= self->group->ranks || !turn_takes(&self->turn)) Py_RETURN_FALSE;
    struct call call = call_of(self, BROADCAST, tensor.type, tensor.elements);
    call.root = self->names[root];
    uint64_t place = tensor.bytes < WINDOW_BYTES ? CLOSED : where(self, tensor.data);
    begin(self, &progress);
    return end(self, &progress,
               broadcast(self->group, &call, tensor.data, tensor.bytes, (int)root, place));
}

/* Of a call with one output and one input: whether both are plain, and the whole has as many elements
   as the part for each rank. */
static int are_plain(const Quick *self, PyObject *whole, PyObject *part, struct vector *wholes,
                     struct vector *parts) {
    return is_plain(whole, wholes) && is_plain(part, parts) && wholes->type == parts->type &&
           wholes->elements == parts->elements * (size_t)self->group->ranks;
}

/* Where a part lies, or the whole, of which others read while this rank writes the other of the two. */
static uint64_t readable(Quick *self, const struct vector *whole, const struct vector *part,
                         const struct vector *read, size_t least) {
    if (least < WINDOW_BYTES) return CLOSED;
    int in_place = part->data == whole->data + (size_t)self->group->rank * part->bytes;
    if (!in_place && !are_apart(part->data, part->bytes, whole->data, whole->bytes)) return CLOSED;
    return where(self, read->data);
}

static void deal(const Quick *self, const struct vector *whole, uint8_t **parts) {
    size_t bytes = whole->bytes / (size_t)self->group->ranks;
    for (int rank = 0; rank < self->group->ranks; rank++) parts[rank] = whole->data + rank * bytes;
}

static PyObject *all_gather(Quick *self, PyObject *const *given, Py_ssize_t count) {
    struct vector output, tensor;
    struct progress progress;
    uint8_t *outputs[MOST_RANKS];
    if (!arguments(count, 3)) return NULL;
    if (!are_plain(self, given[0], given[1], &output, &tensor) || !is_waited_for(given[2]) ||
        !turn_takes(&self->turn))
        Py_RETURN_FALSE;
    struct call call = call_of(self, ALL_GATHER, tensor.type, tensor.elements);
    uint64_t place = readable(self, &output, &tensor, &tensor, tensor.bytes);
    deal(self, &output, outputs);
    begin(self, &progress);
    return end(self, &progress,
               gather(self->group, &call, outputs, tensor.data, tensor.bytes, place));
}

static PyObject *quick_reduce_scatter(Quick *self, PyObject *const *given, Py_ssize_t count) {
    struct vector output, tensor;
    struct progress progress;
    uint8_t *inputs[MOST_RANKS];
    if (!arguments(count, 3)) return NULL;
    if (!are_plain(self, given[1], given[0], &tensor, &output) || !is_waited_for(given[2]))
        Py_RETURN_FALSE;
    const struct named *named = reduction_of_options(self, given[2]);
    const struct reduction *by = folded(named, tensor.type);
    if (!by || !turn_takes(&self->turn)) Py_RETURN_FALSE;
    struct call call = call_of(self, REDUCE_SCATTER, output.type, output.elements);
    memcpy(call.name, named->name, NAME_BYTES);
    uint64_t place = readable(self, &tensor, &output, &tensor, tensor.bytes);
    deal(self, &tensor, inputs);
    begin(self, &progress);
    return end(self, &progress, reduce_scatter(self->group, &call, output.data, inputs,
                                               output.elements, by, place));
}

/* Whether splits are even, and rows can be dealt out to all ranks. */
static int are_even(const Quick *self, PyObject *splits, const struct vector *tensor) {
    return PyObject_Size(splits) == 0 && tensor->rows % (size_t)self->group->ranks == 0;
}

static PyObject *quick_all_to_all(Quick *self, PyObject *const *given, Py_ssize_t count) {
    struct vector output, tensor;
    struct progress progress;
    uint8_t *outputs[MOST_RANKS], *inputs[MOST_RANKS];
    if (!arguments(count, 5)) return NULL;
    if (!is_waited_for(given[4]) || !is_plain(given[0], &output) || !is_plain(given[1], &tensor) ||
        output.type != tensor.type || output.elements != tensor.elements ||
        !are_even(self, given[2], &output) || !are_even(self, given[3], &tensor) ||
        !turn_takes(&self->turn)) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    struct call call = call_of(self, ALL_TO_ALL, tensor.type, 0);
    int apart = are_apart(output.data, output.bytes, tensor.data, tensor.bytes);
    uint64_t place = apart && tensor.bytes >= WINDOW_BYTES ? where(self, tensor.data) : CLOSED;
    uint64_t bytes = apart ? tensor.bytes / (size_t)self->group->ranks : CLOSED;
    deal(self, &output, outputs);
    deal(self, &tensor, inputs);
    begin(self, &progress);
    enum outcome outcome = all_to_all(self->group, &call, outputs, inputs, bytes, place);
    if (outcome != UNEVEN) return end(self, &progress, outcome);
    progress_end(&progress);
    Py_XDECREF(PyObject_CallMethod(self->kernel, "exchange_even", "OO", given[0], given[1]));
    return leave(self);
}

static int fill(Quick *self, PyObject *operations, PyObject *dtypes, PyObject *names) {
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(dtypes, &bytes, &size)) return -1;
    if (size != TYPES || PyTuple_Size(operations) != OPERATIONS ||
        PyTuple_Size(names) != self->group->ranks) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "all types, operations and ranks");
        return -1;
    }
    memcpy(self->dtypes, bytes, TYPES);
    for (int at = 0; at < OPERATIONS; at++) {
        const char *name;
        struct named *named = &self->named[at];
        if (!PyArg_ParseTuple(PyTuple_GetItem(operations, at), "ls", &named->operation, &name))
            return -1;
        strncpy(named->name, name, NAME_BYTES);
    }
    for (int rank = 0; rank < self->group->ranks; rank++)
        self->names[rank] = (int32_t)PyLong_AsLong(PyTuple_GetItem(names, rank));
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *quick_new(PyTypeObject *type, PyObject *given, PyObject *named) {
    static char *words[] = {"kernel",   "group",      "lane",   "members", "failed",
                            "segments", "operations", "dtypes", "names",   NULL};
    PyObject *kernel, *group, *lane, *members, *failed, *segments, *operations, *dtypes, *names;
    if (!PyArg_ParseTupleAndKeywords(given, named, "OOOOOOOOO", words, &kernel, &group, &lane,
                                     &members, &failed, &segments, &operations, &dtypes, &names))
        return NULL;
    Quick *self = (Quick *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    self->kernel = Py_NewRef(kernel);
    self->holder = Py_NewRef(group);
    self->group = &((Group *)group)->group;
    self->failed = Py_NewRef(failed);
    self->segments = Py_NewRef(segments);
    if (turn_begin(&self->turn, lane, members) || fill(self, operations, dtypes, names)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int quick_traverse(Quick *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->kernel);
    Py_VISIT(self->failed);
    Py_VISIT(self->turn.lane);
    Py_VISIT(self->turn.members);
    return 0;
}

static int quick_clear(Quick *self) {
    turn_end(&self->turn);
    Py_CLEAR(self->kernel);
    Py_CLEAR(self->holder);
    Py_CLEAR(self->failed);
    Py_CLEAR(self->segments);
    return 0;
}

static void quick_dealloc(Quick *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    quick_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"all_reduce", (PyCFunction)(void (*)(void))all_reduce, METH_FASTCALL, NULL},
    {"broadcast", (PyCFunction)(void (*)(void))quick_broadcast, METH_FASTCALL, NULL},
    {"all_gather_single", (PyCFunction)(void (*)(void))all_gather, METH_FASTCALL, NULL},
    {"reduce_scatter_single", (PyCFunction)(void (*)(void))quick_reduce_scatter, METH_FASTCALL, NULL},
    {"all_to_all_single", (PyCFunction)(void (*)(void))quick_all_to_all, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, quick_new},
    {Py_tp_dealloc, quick_dealloc},
    {Py_tp_traverse, quick_traverse},
    {Py_tp_clear, quick_clear},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec quick_spec = {"steptime.backend.host._kernel.Quick", sizeof(Quick), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int quick_begin(void) {
    is_asynchronous = PyUnicode_InternFromString("asyncOp");
    reduce_op = PyUnicode_InternFromString("reduceOp");
    root_rank = PyUnicode_InternFromString("rootRank");
    return is_asynchronous && reduce_op && root_rank ? 0 : -1;
}
