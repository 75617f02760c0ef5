/* Method: a call of a group that is a Python class, as _method in classes.py describes it.

   A call that somebody watches, or that is made within another, or whose arguments have names, is
   Python's to write down, by ``otherwise``, whose name and what else attributes tell it has. */

#include "recorder.h"

#define HELD                                                                                  \
    X(kernel) X(calls) X(of_thread) X(watchers) X(reduction_name) X(method) X(pending)        \
    X(otherwise)

enum { NO_PEER, PEER, ROOT }; /* as kernels.py has them */

typedef struct {
    PyObject_HEAD
    Rows *rows;
#define X(name) PyObject *name;
    HELD
#undef X
    PyObject *named;   /* the names of reductions by their numbers */
    PyObject *nothing; /* the name of none */
    int peer, reduces, is_message;
} Method;

/* An attribute of the options that a call has last; a new reference, NULL where there is none. */
static PyObject *option(PyObject *options, PyObject *name) {
    PyObject *found = options ? PyObject_GetAttr(options, name) : NULL;
    if (!found && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    return found;
}

/* The name of a call's reduction; a new reference. */
static PyObject *reduction(Method *self, PyObject *options) {
    if (!self->reduces) return Py_NewRef(self->nothing);
    PyObject *chosen = option(options, names.reduceOp), *name = NULL;
    if (PyErr_Occurred()) return NULL;
    PyObject *kind = chosen ? option(chosen, names.op) : NULL;
    PyObject *number = kind ? PyNumber_Long(kind) : NULL;
    if (number) name = Py_XNewRef(PyDict_GetItemWithError(self->named, number));
    if (!name && !PyErr_Occurred()) {
        PyObject *asked = chosen ? chosen : Py_None;
        name = PyObject_CallFunctionObjArgs(self->reduction_name, asked, NULL);
        if (name && number && PyDict_SetItem(self->named, number, name)) Py_CLEAR(name);
    }
    Py_XDECREF(number);
    Py_XDECREF(kind);
    Py_XDECREF(chosen);
    return name;
}

static int peer(Method *self, PyObject *arguments, PyObject *options, struct event *event) {
    PyObject *found = NULL;
    if (self->peer == PEER) found = Py_XNewRef(PyTuple_GetItem(arguments, 1));
    if (self->peer == ROOT && !(found = option(options, names.rootRank)) && !PyErr_Occurred())
        found = PyLong_FromLong(0);
    if (found) event->peer = (int)PyLong_AsLong(found);
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

/* Fill in an event for a call that is made now. */
static int describe(Method *self, PyObject *given, int *waits, struct event *event) {
    Py_ssize_t count = PyTuple_Size(given);
    PyObject *options = count > 1 && !self->is_message ? PyTuple_GetItem(given, count - 1) : NULL;
    PyObject *asynchronous = option(options, names.asyncOp), *name = NULL;
    if (asynchronous) *waits = !PyObject_IsTrue(asynchronous);
    Py_XDECREF(asynchronous);
    PyObject *arguments = PyErr_Occurred() ? NULL : PyTuple_GetSlice(given, 1, count);
    if (arguments && !peer(self, arguments, options, event) && (name = reduction(self, options)))
        kernel_describe(self->kernel, PyTuple_GetItem(given, 0), arguments, name, event);
    Py_XDECREF(name);
    Py_XDECREF(arguments);
    return PyErr_Occurred() ? -1 : 0;
}

static int64_t begin(Method *self, PyObject *given, int *waits, struct event *event) {
    if (PyObject_SetAttr(self->of_thread, names.work, Py_None)) return -1;
    if (set_long(self->of_thread, names.at_once, -1)) return -1;
    if (self->reduces && PyObject_SetAttr(self->of_thread, names.reduction, Py_None)) return -1;
    if (describe(self, given, waits, event)) return -1;
    int64_t place = kernel_site(self->kernel);
    if (place < 0) return -1;
    event->site = (uint32_t)place;
    event->flags = *waits ? 0 : ASYNC;
    event->issued = now();
    return rows_write(self->rows, event);
}

/* The method itself, in which others may be called; when it came back is in ``returned``. */
static PyObject *called(Method *self, PyObject *given, int64_t *returned) {
    if (PyObject_SetAttr(self->of_thread, names.inside, Py_True)) return NULL;
    PyObject *work = PyObject_Call(self->method, given, NULL);
    *returned = now();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyObject_SetAttr(self->of_thread, names.inside, Py_False)) PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return work;
}

/* Say that a call came back with a Work. */
static int came_back(Method *self, int64_t number, int64_t issued, int64_t returned, int waits,
                     PyObject *work) {
    PyObject *over = work == Py_None
                         ? Py_NewRef(Py_True)
                         : PyObject_CallMethodObjArgs(work, names.is_completed, NULL);
    int done = over ? PyObject_IsTrue(over) : -1;
    Py_XDECREF(over);
    if (done < 0) return -1;
    struct event *at = rows_at(self->rows, number);
    if (at) at->returned = returned;
    if (done) { /* nobody need wait for it: what the call took was the waiting */
        rows_came_back(self->rows, number, returned);
        rows_waited(self->rows, number, waits ? issued : returned, returned);
        return waits ? set_long(self->of_thread, names.at_once, OVER) : 0;
    }
    PyObject *event = PyLong_FromLongLong(number), *kept = NULL;
    if (event) kept = PyObject_CallFunctionObjArgs(self->pending, event, work, NULL);
    Py_XDECREF(event);
    Py_XDECREF(kept);
    return kept ? 0 : -1;
}

/* Whether a class takes other arguments than torch passes; then Python records what it can. */
static int takes_others(void) {
    PyObject *kinds[] = {PyExc_AttributeError, PyExc_IndexError, PyExc_TypeError};
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++)
        if (PyErr_ExceptionMatches(kinds[at])) {
            PyErr_Clear();
            return 1;
        }
    return 0;
}

static PyObject *recorded(Method *self, PyObject *given) {
    struct event event = {.peer = -1};
    int waits = 0;
    int64_t returned = 0, number = begin(self, given, &waits, &event);
    if (number < 0) return takes_others() ? PyObject_Call(self->otherwise, given, NULL) : NULL;
    PyObject *work = called(self, given, &returned);
    if (!work) {
        struct event *at = rows_at(self->rows, number);
        if (at) at->returned = returned;
        rows_waited(self->rows, number, event.issued, now()); /* and it has no end: it failed */
    } else if (came_back(self, number, event.issued, returned, waits, work)) {
        Py_CLEAR(work);
    }
    return work;
}

/* Whether Python is to write a call down; -1 with an exception set. */
static int is_pythons(Method *self, PyObject *named) {
    if ((named && PyDict_Size(named)) || PyList_Size(self->watchers)) return 1;
    PyObject *inside = PyObject_GetAttr(self->of_thread, names.inside);
    PyObject *marks = PyObject_GetAttr(self->calls, names.marks);
    int found = inside && marks ? inside != Py_False || marks != Py_None : -1;
    Py_XDECREF(inside);
    Py_XDECREF(marks);
    return found;
}

static PyObject *method_call(Method *self, PyObject *given, PyObject *named) {
    int pythons = is_pythons(self, named);
    if (pythons < 0) return NULL;
    return pythons ? PyObject_Call(self->otherwise, given, named) : recorded(self, given);
}

static PyObject *method_get(Method *self, PyObject *group, PyObject *type) {
    (void)type;
    return bound_to((PyObject *)self, group);
}

static PyObject *method_getattro(Method *self, PyObject *name) {
    return attribute_of((PyObject *)self, self->otherwise, name);
}

static int method_init(Method *self, PyObject *given, PyObject *named) {
    static char *arguments[] = {"peer", "reduces", "is_message", "rows",
#define X(name) #name,
                                HELD
#undef X
                                NULL};
    PyObject *rows;
#define X(name) PyObject *name;
    HELD
#undef X
    if (!PyArg_ParseTupleAndKeywords(given, named,
#define X(name) "O"
                                     "$ippO" HELD,
#undef X
                                     arguments, &self->peer, &self->reduces, &self->is_message, &rows
#define X(name) , &name
                                     HELD
#undef X
                                     ))
        return -1;
    self->rows = (Rows *)Py_NewRef(rows);
#define X(name) self->name = Py_NewRef(name);
    HELD
#undef X
    self->named = PyDict_New();
    self->nothing = PyUnicode_FromString("");
    return self->named && self->nothing ? 0 : -1;
}

static void method_dealloc(Method *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->rows);
    Py_XDECREF(self->named);
    Py_XDECREF(self->nothing);
#define X(name) Py_XDECREF(self->name);
    HELD
#undef X
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot method_slots[] = {
    {Py_tp_init, method_init},
    {Py_tp_dealloc, method_dealloc},
    {Py_tp_call, method_call},
    {Py_tp_descr_get, method_get},
    {Py_tp_getattro, method_getattro},
    {0, NULL},
};

PyType_Spec method_spec = {
    .name = "steptime.record._recorder.Method",
    .basicsize = sizeof(Method),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = method_slots,
};
