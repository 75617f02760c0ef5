/* The type Route of the module, which _kernel.pyi describes: brief messages past Python, from one rank
   to another under one tag.

   They are copied while the caller keeps the interpreter's lock, so that no other thread comes between
   what is asked and what is done. */

#include <string.h>

#include "call.h"
#include "tensor.h"
#include "turn.h"

typedef struct {
    PyObject_HEAD
    struct turn turn;
    PyObject *holder; /* the Channel that holds this: */
    struct channel *channel;
    PyObject *is_used; /* whether a thread uses it */
    PyObject *kept;    /* the messages that have been taken from it for other tags */
    PyObject *crew;
    int64_t tag;
    int32_t peer;
    uint8_t dtypes[TYPES];
} Route;

static PyObject *latest, *is_awaited, *nothing;

/* The call of a brief message, if the channel is free for it. */
static int is_brief(const Route *self, PyObject *tensors, struct vector *tensor, struct call *call) {
    if (!is_one_plain(tensors, tensor) || tensor->bytes > EAGER_BYTES) return 0;
    if (!is_clear(&self->turn)) return 0;
    PyObject *answer = PyObject_CallNoArgs(self->is_used);
    Py_XDECREF(answer);
    *call = (struct call){SEND, self->dtypes[tensor->type], 0, self->peer, tensor->elements, ""};
    return answer == Py_False;
}

static PyObject *send(Route *self, PyObject *tensors) {
    struct vector tensor;
    struct call call;
    if (!is_brief(self, tensors, &tensor, &call)) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    if (PyObject_SetAttr(self->crew, latest, nothing)) return NULL;
    return PyBool_FromLong(
        channel_try_put(self->channel, &call, self->tag, tensor.data, tensor.bytes));
}

/* Whether to look for a message for a while: an early receive is no time for that, for then others come
   late. */
static int is_patient(const Route *self) {
    PyObject *found = PyObject_GetAttr(self->turn.lane, is_awaited);
    Py_XDECREF(found);
    PyErr_Clear();
    return found == Py_True;
}

/* Whether the next message of the channel may be had at once. */
static int may_receive(const Route *self, PyObject *tensors, struct vector *tensor, struct call *call) {
    if (is_brief(self, tensors, tensor, call) && PyObject_Size(self->kept) == 0) return 1;
    PyErr_Clear();
    return 0;
}

/* Look for a message; whether other threads may have run. That happens where the other rank has been
   interrupted, as it is some hundred times a second: for longer than a message takes, and for less
   than a Task for its receive. */
static int expect(Route *self) {
    if (!is_patient(self) || channel_expect(self->channel, SOON)) return 0;
    Py_BEGIN_ALLOW_THREADS;
    channel_expect(self->channel, LONG);
    Py_END_ALLOW_THREADS;
    return 1;
}

static PyObject *receive(Route *self, PyObject *tensors) {
    struct vector tensor;
    struct call call;
    if (!may_receive(self, tensors, &tensor, &call)) Py_RETURN_FALSE;
    if (expect(self) && !may_receive(self, tensors, &tensor, &call)) Py_RETURN_FALSE;
    if (!channel_holds(self->channel, &call, self->tag, tensor.bytes)) Py_RETURN_FALSE;
    channel_get(self->channel, tensor.data, tensor.bytes);
    Py_RETURN_TRUE;
}

static PyObject *route_new(PyTypeObject *type, PyObject *given, PyObject *named) {
    static char *words[] = {"channel", "is_used", "kept", "lane", "members",
                            "crew",    "dtypes",  "name", "tag",  NULL};
    PyObject *channel, *is_used, *kept, *lane, *members, *crew;
    const char *dtypes;
    Py_ssize_t size;
    int peer;
    long long tag;
    if (!PyArg_ParseTupleAndKeywords(given, named, "OOOOOOy#iL", words, &channel, &is_used, &kept,
                                     &lane, &members, &crew, &dtypes, &size, &peer, &tag))
        return NULL;
    if (size != TYPES) {
        PyErr_SetString(PyExc_ValueError, "all types, please");
        return NULL;
    }
    Route *self = (Route *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    self->holder = Py_NewRef(channel);
    self->channel = &((Channel *)channel)->channel;
    self->is_used = Py_NewRef(is_used);
    self->kept = Py_NewRef(kept);
    self->crew = Py_NewRef(crew);
    self->tag = tag;
    self->peer = peer;
    memcpy(self->dtypes, dtypes, TYPES);
    if (turn_begin(&self->turn, lane, members)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int route_traverse(Route *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->turn.lane);
    Py_VISIT(self->turn.members);
    Py_VISIT(self->kept);
    Py_VISIT(self->crew);
    return 0;
}

static int route_clear(Route *self) {
    turn_end(&self->turn);
    Py_CLEAR(self->holder);
    Py_CLEAR(self->is_used);
    Py_CLEAR(self->kept);
    Py_CLEAR(self->crew);
    return 0;
}

static void route_dealloc(Route *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    route_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"send", (PyCFunction)send, METH_O, NULL},
    {"receive", (PyCFunction)receive, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, route_new},
    {Py_tp_dealloc, route_dealloc},
    {Py_tp_traverse, route_traverse},
    {Py_tp_clear, route_clear},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec route_spec = {"steptime.backend.host._kernel.Route", sizeof(Route), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int route_begin(void) {
    latest = PyUnicode_InternFromString("latest");
    is_awaited = PyUnicode_InternFromString("is_awaited_at_once");
    nothing = PyLong_FromLong(0);
    return latest && is_awaited && nothing ? 0 : -1;
}
