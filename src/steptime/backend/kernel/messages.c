/* The type Channel of the module, which _kernel.pyi describes. */

#include "module.h"

#define BRIEF_BYTES (16 << 10) /* copied sooner than another thread has got the lock */

/* A message as Python gives it: call, tag, address and bytes; and where in the arena, to be sent. */
struct message {
    const char *call;
    int64_t tag;
    uint8_t *payload;
    size_t bytes;
    uint64_t where;
};

static int parse(struct message *message, PyObject *const *given, Py_ssize_t count,
                 Py_ssize_t wanted) {
    if (!arguments(count, wanted)) return 0;
    message->call = PyBytes_AsString(given[0]);
    if (!message->call) return 0;
    message->tag = PyLong_AsLongLong(given[1]);
    message->payload = pointer(given[2]);
    message->bytes = PyLong_AsSize_t(given[3]);
    message->where = wanted > 4 ? PyLong_AsUnsignedLongLong(given[4]) : CLOSED;
    return !PyErr_Occurred();
}

static PyObject *channel_put_now(Channel *self, PyObject *const *given, Py_ssize_t count) {
    struct message m;
    if (!parse(&m, given, count, 4)) return NULL;
    int put = 0;
    if (m.bytes <= BRIEF_BYTES) {
        put = channel_try_put(&self->channel, m.call, m.tag, m.payload, m.bytes);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        put = channel_try_put(&self->channel, m.call, m.tag, m.payload, m.bytes);
        Py_END_ALLOW_THREADS;
    }
    return PyBool_FromLong(put);
}

static PyObject *channel_begin_put(Channel *self, PyObject *const *given, Py_ssize_t count) {
    struct message m;
    if (!parse(&m, given, count, 5)) return NULL;
    enum step step;
    Py_BEGIN_ALLOW_THREADS;
    step = channel_put(&self->channel, m.call, m.tag, m.payload, m.bytes, m.where);
    Py_END_ALLOW_THREADS;
    return PyBool_FromLong(step == FINISHED);
}

static PyObject *channel_begin_offer(Channel *self, PyObject *const *given, Py_ssize_t count) {
    struct message m;
    if (!parse(&m, given, count, 5)) return NULL;
    int offered = channel_offer(&self->channel, m.call, m.tag, m.payload, m.bytes, m.where);
    return PyBool_FromLong(offered);
}

static enum step get(Channel *self, uint8_t *payload, size_t bytes) {
    enum step step;
    if (bytes <= BRIEF_BYTES && channel_is_whole(&self->channel, bytes))
        return channel_get(&self->channel, payload, bytes);
    Py_BEGIN_ALLOW_THREADS;
    step = channel_get(&self->channel, payload, bytes);
    Py_END_ALLOW_THREADS;
    return step;
}

static PyObject *channel_begin_get(Channel *self, PyObject *const *given, Py_ssize_t count) {
    if (!arguments(count, 2)) return NULL;
    uint8_t *payload = pointer(given[0]);
    size_t bytes = PyLong_AsSize_t(given[1]);
    if (PyErr_Occurred()) return NULL;
    return PyBool_FromLong(get(self, payload, bytes) == FINISHED);
}

static PyObject *channel_take(Channel *self, PyObject *const *given, Py_ssize_t count) {
    struct message m;
    if (!parse(&m, given, count, 4)) return NULL;
    if (!channel_holds(&self->channel, m.call, m.tag, m.bytes)) Py_RETURN_NONE;
    return PyBool_FromLong(get(self, m.payload, m.bytes) == FINISHED);
}

static PyObject *channel_foreign(Channel *self, PyObject *none) {
    (void)none;
    uint64_t where = channel_unmapped(&self->channel);
    if (where == CLOSED) Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(where);
}

static PyObject *channel_map(Channel *self, PyObject *const *given, Py_ssize_t count) {
    if (!arguments(count, 3)) return NULL;
    struct mapping *arena = &self->channel.arena;
    arena->start = PyLong_AsUnsignedLongLong(given[0]);
    arena->end = PyLong_AsUnsignedLongLong(given[1]);
    arena->address = pointer(given[2]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *channel_look(Channel *self, PyObject *none) {
    (void)none;
    return PyBool_FromLong(channel_expect(&self->channel, SOON));
}

static PyObject *channel_head(Channel *self, PyObject *none) {
    (void)none;
    const uint64_t *head = channel_next(&self->channel);
    if (!head) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)head, HEAD_WORDS * sizeof *head);
}

static PyObject *channel_continue(Channel *self, PyObject *none) {
    (void)none;
    enum step step;
    Py_BEGIN_ALLOW_THREADS;
    step = channel_go_on(&self->channel);
    Py_END_ALLOW_THREADS;
    return PyBool_FromLong(step == FINISHED);
}

static PyObject *channel_lacks(Channel *self, PyObject *none) {
    (void)none;
    return PyBool_FromLong(channel_waits(&self->channel));
}

static PyObject *channel_free(Channel *self, PyObject *none) {
    (void)none;
    return PyBool_FromLong(channel_is_free(&self->channel));
}

static PyObject *channel_end(Channel *self, PyObject *none) {
    (void)none;
    channel_withdraw(&self->channel);
    Py_RETURN_NONE;
}

static PyObject *channel_count(Channel *self, PyObject *none) {
    (void)none;
    return PyLong_FromUnsignedLongLong(channel_written(&self->channel));
}

static PyObject *channel_wait(Channel *self, PyObject *written) {
    uint64_t seen = PyLong_AsUnsignedLongLong(written);
    if (PyErr_Occurred()) return NULL;
    int more = channel_written(&self->channel) > seen;
    if (!more) {
        Py_BEGIN_ALLOW_THREADS;
        more = channel_await(&self->channel, seen);
        Py_END_ALLOW_THREADS;
    }
    return PyBool_FromLong(more);
}

static PyObject *channel_new(PyTypeObject *type, PyObject *given, PyObject *named) {
    static char *names[] = {"words", "ring", "looks", "writer", NULL};
    unsigned long long words, ring;
    int looks, writer;
    if (!PyArg_ParseTupleAndKeywords(given, named, "KKii", names, &words, &ring, &looks, &writer))
        return NULL;
    Channel *self = (Channel *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    self->channel = (struct channel){
        .words = (word *)(uintptr_t)words,
        .ring = (uint8_t *)(uintptr_t)ring,
        .looks = looks,
        .writer = writer,
    };
    return (PyObject *)self;
}

static void channel_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"try_put", (PyCFunction)(void (*)(void))channel_put_now, METH_FASTCALL, NULL},
    {"put", (PyCFunction)(void (*)(void))channel_begin_put, METH_FASTCALL, NULL},
    {"offer", (PyCFunction)(void (*)(void))channel_begin_offer, METH_FASTCALL, NULL},
    {"get", (PyCFunction)(void (*)(void))channel_begin_get, METH_FASTCALL, NULL},
    {"take", (PyCFunction)(void (*)(void))channel_take, METH_FASTCALL, NULL},
    {"unmapped", (PyCFunction)channel_foreign, METH_NOARGS, NULL},
    {"map", (PyCFunction)(void (*)(void))channel_map, METH_FASTCALL, NULL},
    {"expect", (PyCFunction)channel_look, METH_NOARGS, NULL},
    {"head", (PyCFunction)channel_head, METH_NOARGS, NULL},
    {"go_on", (PyCFunction)channel_continue, METH_NOARGS, NULL},
    {"waits", (PyCFunction)channel_lacks, METH_NOARGS, NULL},
    {"is_free", (PyCFunction)channel_free, METH_NOARGS, NULL},
    {"withdraw", (PyCFunction)channel_end, METH_NOARGS, NULL},
    {"written", (PyCFunction)channel_count, METH_NOARGS, NULL},
    {"await_more", (PyCFunction)channel_wait, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"writing", T_INT, offsetof(Channel, channel.writing), READONLY, NULL},
    {"offered", T_ULONGLONG, offsetof(Channel, channel.offer), READONLY, NULL},
    {"writer", T_INT, offsetof(Channel, channel.writer), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, channel_new},
    {Py_tp_dealloc, channel_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec channel_spec = {"steptime.backend.host._kernel.Channel", sizeof(Channel), 0,
                            Py_TPFLAGS_DEFAULT, slots};
