/* Kernel: what the dispatcher calls in place of an operator of c10d, as _kernel in c10d.py describes.

   Here is the way of a call of which nothing is new: its group, tensors and place were met before.
   What is new Python resolves, and so it does all of it where others watch the calls or the call is
   made within one of a Python class. */

#include "recorder.h"

/* The objects that a kernel holds, by the names of the arguments that give them. */
#define HELD                                                                                    \
    X(calls) X(log) X(of_thread) X(watchers) X(groups) X(signatures) X(sites) X(origins)        \
    X(origin) X(site_in_package) X(reductions) X(reduction_name) X(vector) X(detail) X(unbox)   \
    X(unbox_work) X(redispatch) X(below) X(otherwise)

typedef struct {
    PyObject_HEAD
    Rows *rows;
#define X(name) PyObject *name;
    HELD
#undef X
    int number;              /* of the operation */
    int group, peer, waits;  /* which argument says that; -1: none */
    int tensors, depth;      /* which argument holds them: 0 a tensor, 1 a list, 2 ``vector`` tells */
    int reduces, times_group;
} Kernel;

/* What the call is called with; ``first`` is borrowed. */
struct tensors {
    PyObject *first; /* NULL where there is none */
    PyObject *all;   /* a sequence of them */
    Py_ssize_t count;
};

/* A dict's value for the address of an object, borrowed; NULL where there is none. */
static PyObject *by_address(PyObject *dict, PyObject *object) {
    PyObject *address = PyLong_FromVoidPtr(object);
    if (!address) return NULL;
    PyObject *found = PyDict_GetItemWithError(dict, address);
    Py_DECREF(address);
    return found;
}

static int64_t number_of(PyObject *number) {
    int64_t found = number ? PyLong_AsLongLong(number) : -1;
    Py_XDECREF(number);
    return found;
}

/* The number of a group that may have been met; one that has gone may have had its address. */
static int64_t group_number(Kernel *self, PyObject *group) {
    PyObject *known = by_address(self->groups, group);
    if (known) {
        PyObject *met = PyObject_CallNoArgs(PyTuple_GetItem(known, 0));
        int same = met == group;
        Py_XDECREF(met);
        if (same) return PyLong_AsLongLong(PyTuple_GetItem(known, 1));
    }
    if (PyErr_Occurred()) return -1;
    return number_of(PyObject_CallMethod(self->calls, "new_group", "O", group));
}

/* The name of the reduction that this thread has chosen for the call; a new reference. */
static PyObject *reduction(Kernel *self) {
    if (!self->reduces) return PyUnicode_FromString("");
    PyObject *chosen = PyObject_GetAttr(self->of_thread, names.reduction);
    if (!chosen) return NULL;
    PyObject *name = by_address(self->reductions, chosen);
    if (name)
        Py_INCREF(name);
    else if (!PyErr_Occurred())
        name = PyObject_CallFunctionObjArgs(self->reduction_name, chosen, NULL);
    Py_DECREF(chosen);
    if (name && PyObject_SetAttr(self->of_thread, names.reduction, Py_None)) Py_CLEAR(name);
    return name;
}

static int tensors_in(Kernel *self, PyObject *arguments, struct tensors *found) {
    *found = (struct tensors){0};
    if (self->tensors < 0) return 0;
    if (self->depth == 0) {
        found->first = PyTuple_GetItem(arguments, self->tensors);
        found->all = PyTuple_Pack(1, found->first);
    } else if (self->depth == 1) {
        found->all = PySequence_List(PyTuple_GetItem(arguments, self->tensors));
    } else {
        found->all = PyObject_CallFunctionObjArgs(self->vector, arguments, NULL);
    }
    if (!found->all || (found->count = PySequence_Size(found->all)) < 0) return -1;
    if (found->count && self->depth) found->first = PyList_GetItem(found->all, 0);
    return 0;
}

/* The number of what a call is called with, and its bytes. */
static int signature(Kernel *self, const struct tensors *tensors, PyObject *name, PyObject *detail,
                     int64_t *number, int64_t *bytes) {
    *number = *bytes = 0;
    if (!tensors->count) return 0;
    PyObject *known = NULL, *key = NULL;
    int64_t dense = tensors->count == 1;
    if (dense) {
        int64_t sparse = number_of(PyObject_GetAttr(tensors->first, names.is_sparse));
        if (sparse < 0) return -1;
        dense = !sparse; /* sparse ones Python tells apart, by how many values they have */
    }
    if (dense) {
        PyObject *dtype = PyObject_GetAttr(tensors->first, names.dtype);
        PyObject *shape = PyObject_GetAttr(tensors->first, names.shape);
        PyObject *whole = PyObject_CallMethodObjArgs(tensors->first, names.is_contiguous, NULL);
        if (dtype && shape && whole) key = PyTuple_Pack(5, name, detail, dtype, shape, whole);
        Py_XDECREF(dtype);
        Py_XDECREF(shape);
        Py_XDECREF(whole);
        if (!key) return -1;
        known = PyDict_GetItemWithError(self->signatures, key);
        Py_DECREF(key);
        Py_XINCREF(known);
        if (!known && PyErr_Occurred()) return -1;
    }
    if (!known)
        known = PyObject_CallMethod(self->calls, "signature", "OOO", tensors->all, name, detail);
    if (!known) return -1;
    *number = PyLong_AsLongLong(PyTuple_GetItem(known, 0));
    *bytes = PyLong_AsLongLong(PyTuple_GetItem(known, 1));
    Py_DECREF(known);
    return PyErr_Occurred() ? -1 : 0;
}

enum { OURS, SCRIPT, PACKAGE }; /* as places.py has them */

static int64_t origin(Kernel *self, PyObject *code) {
    PyObject *file = PyObject_GetAttr(code, names.co_filename);
    if (!file) return -1;
    PyObject *known = PyDict_GetItemWithError(self->origins, file);
    Py_DECREF(file);
    if (known) return PyLong_AsLongLong(known);
    if (PyErr_Occurred()) return -1;
    return number_of(PyObject_CallFunctionObjArgs(self->origin, code, NULL));
}

static int64_t site_number(Kernel *self, PyObject *code, int line) {
    PyObject *key = Py_BuildValue("(Ni)", PyLong_FromVoidPtr(code), line);
    if (!key) return -1;
    PyObject *known = PyDict_GetItemWithError(self->sites, key);
    Py_DECREF(key);
    if (known) return PyLong_AsLongLong(known);
    if (PyErr_Occurred()) return -1;
    return number_of(PyObject_CallMethod(self->log, "site", "Oi", code, line));
}

/* The number of the innermost place of the script, 0 where there is none; places.py looks for it
   where a package calls. */
static int64_t site(Kernel *self) {
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    int64_t found = 0;
    while (frame && frame != Py_None) {
        PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        int64_t whose = origin(self, code);
        if (whose == SCRIPT)
            found = site_number(self, code, PyFrame_GetLineNumber((PyFrameObject *)frame));
        else if (whose == PACKAGE)
            found = number_of(
                PyObject_CallFunctionObjArgs(self->site_in_package, self->log, frame, NULL));
        Py_DECREF(code);
        PyObject *back = whose != OURS ? NULL : PyObject_GetAttr(frame, names.f_back);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return PyErr_Occurred() ? -1 : found;
}

int64_t kernel_site(PyObject *kernel) { return site((Kernel *)kernel); }

/* Where a tensor begins; 0 where it has no memory. */
static int64_t address(PyObject *tensor) {
    if (!tensor) return 0;
    PyObject *place = PyObject_CallMethodObjArgs(tensor, names.data_ptr, NULL);
    if (place) {
        int64_t found = (int64_t)PyLong_AsUnsignedLongLong(place);
        Py_DECREF(place);
        return found;
    }
    if (PyErr_ExceptionMatches(PyExc_RuntimeError)) PyErr_Clear();
    return 0;
}

int kernel_describe(PyObject *kernel, PyObject *group, PyObject *arguments, PyObject *name,
                    struct event *event) {
    Kernel *self = (Kernel *)kernel;
    struct tensors tensors = {0};
    int64_t number = 0, bytes = 0, where = group_number(self, group);
    PyObject *detail = NULL;
    if (where < 0) return -1;
    if (self->detail == Py_None)
        detail = PyTuple_New(0);
    else
        detail = PyObject_CallFunctionObjArgs(self->detail, arguments, NULL);
    if (!detail || tensors_in(self, arguments, &tensors)) goto end;
    if (signature(self, &tensors, name, detail, &number, &bytes)) goto end;
    if (self->times_group) bytes *= number_of(PyObject_CallMethod(group, "size", NULL));
    event->kind = CALL;
    event->operation = (uint8_t)self->number;
    event->group = (uint16_t)where;
    event->signature = (uint32_t)number;
    event->bytes = bytes;
    event->address = address(tensors.first);
end:
    Py_XDECREF(tensors.all);
    Py_XDECREF(detail);
    return PyErr_Occurred() ? -1 : 0;
}

/* Fill in what a call is called with, in which group. */
static int describe(Kernel *self, PyObject *arguments, struct event *event) {
    PyObject *boxed = PyTuple_GetItem(arguments, self->group);
    PyObject *group = boxed ? PyObject_CallFunctionObjArgs(self->unbox, boxed, NULL) : NULL;
    PyObject *name = group ? reduction(self) : NULL;
    if (name && !kernel_describe((PyObject *)self, group, arguments, name, event) &&
        self->peer >= 0)
        event->peer = (int)PyLong_AsLong(PyTuple_GetItem(arguments, self->peer));
    Py_XDECREF(name);
    Py_XDECREF(group);
    return PyErr_Occurred() ? -1 : 0;
}

/* Write down that a call is made now; its event, -1 with an exception set. */
static int64_t begin(Kernel *self, PyObject *arguments, int waits) {
    if (PyObject_SetAttr(self->of_thread, names.work, Py_None)) return -1;
    if (set_long(self->of_thread, names.at_once, -1)) return -1;
    struct event event = {.peer = -1};
    event.flags = waits ? 0 : ASYNC;
    if (describe(self, arguments, &event)) return -1;
    int64_t place = site(self);
    if (place < 0) return -1;
    event.site = (uint32_t)place;
    event.issued = now();
    return rows_write(self->rows, &event);
}

/* The operator itself. */
static PyObject *below(Kernel *self, PyObject *given) {
    PyObject *keys = PyNumber_And(PyTuple_GetItem(given, 0), self->below);
    if (!keys) return NULL;
    Py_ssize_t count = PyTuple_Size(given);
    PyObject *onwards = PyTuple_New(count);
    if (!onwards) return NULL;
    PyTuple_SetItem(onwards, 0, keys);
    for (Py_ssize_t at = 1; at < count; at++)
        PyTuple_SetItem(onwards, at, Py_NewRef(PyTuple_GetItem(given, at)));
    PyObject *result = PyObject_Call(self->redispatch, onwards, NULL);
    Py_DECREF(onwards);
    return result;
}

/* A mark of a GPU: a number where ``marks`` is of C, else an object, NULL where there is none. */
struct mark {
    int number;
    PyObject *object;
};

static int in_c(PyObject *marks) { return Py_TYPE(marks) == marks_type; }

/* Where a GPU is now, by ``marks`` or None. */
static int take(PyObject *marks, struct mark *mark) {
    *mark = (struct mark){.number = NO_MARK};
    if (marks == Py_None) return 0;
    if (in_c(marks))
        mark->number = marks_take((Marks *)marks);
    else
        mark->object = PyObject_CallMethodObjArgs(marks, names.take, NULL);
    return PyErr_Occurred() ? -1 : 0;
}

/* Keep that, and let go of it, as one of a time of an event. */
static int keep(PyObject *marks, int64_t event, int time, struct mark *mark) {
    if (mark->number != NO_MARK) marks_keep((Marks *)marks, event, time, mark->number);
    if (!mark->object) return 0;
    PyObject *number = PyLong_FromLongLong(event), *which = PyLong_FromLong(time);
    PyObject *kept = NULL;
    if (number && which)
        kept = PyObject_CallMethodObjArgs(marks, names.keep, number, which, mark->object, NULL);
    Py_XDECREF(number);
    Py_XDECREF(which);
    Py_XDECREF(kept);
    Py_CLEAR(mark->object);
    return kept ? 0 : -1;
}

/* The Work that came back with a result; a new reference, None where there is none. */
static PyObject *work_in(Kernel *self, PyObject *result) {
    PyObject *boxed = result;
    if (PyTuple_Check(result)) boxed = PyTuple_GetItem(result, PyTuple_Size(result) - 1);
    if (!boxed || boxed == Py_None) return Py_XNewRef(boxed);
    return PyObject_CallFunctionObjArgs(self->unbox_work, boxed, NULL);
}

/* Say that a call came back with a result. */
static int came_back(Kernel *self, PyObject *marks, int64_t event, int64_t returned,
                     PyObject *result, int waits) {
    if (waits && marks == Py_None) {
        rows_waited_at_once(self->rows, event, returned, 0);
        return set_long(self->of_thread, names.at_once, event) ||
               set_long(self->of_thread, names.returned, returned);
    }
    PyObject *work = work_in(self, result), *done = NULL;
    if (work == Py_None) { /* as a synchronous call of NCCL, which is on the script's own stream */
        struct mark mark;
        rows_came_back(self->rows, event, returned);
        if (!waits || (!take(marks, &mark) && !keep(marks, event, RETURNED, &mark)))
            done = Py_NewRef(Py_None);
    } else if (work) {
        done = PyObject_CallMethod(self->calls, "went", "LLOiO", (long long)event,
                                   (long long)returned, work, self->number,
                                   waits ? Py_True : Py_False);
    }
    Py_XDECREF(work);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *recorded(Kernel *self, PyObject *given, PyObject *arguments) {
    int waits = 0;
    // torch leaves out trailing arguments that have their default, which is asynchronous.
    if (self->waits >= 0 && PyTuple_Size(arguments) > self->waits)
        waits = !PyObject_IsTrue(PyTuple_GetItem(arguments, self->waits));
    PyObject *marks = PyObject_GetAttr(self->calls, names.marks), *result = NULL;
    struct mark mark;
    if (!marks || take(marks, &mark)) goto end;
    int64_t event = begin(self, arguments, waits);
    if (event >= 0) result = below(self, given);
    int64_t returned = now();
    if (result && keep(marks, event, ISSUED, &mark)) Py_CLEAR(result);
    if (result && came_back(self, marks, event, returned, result, waits)) Py_CLEAR(result);
    Py_XDECREF(mark.object);
end:
    Py_XDECREF(marks);
    return result;
}

static PyObject *kernel_call(Kernel *self, PyObject *given, PyObject *named) {
    PyObject *inside = PyObject_GetAttr(self->of_thread, names.inside);
    if (!inside) return NULL;
    int passes = inside == Py_True || PyList_Size(self->watchers);
    Py_DECREF(inside);
    if (passes) return PyObject_Call(self->otherwise, given, named);
    PyObject *arguments = PyTuple_GetSlice(given, 1, PyTuple_Size(given));
    if (!arguments) return NULL;
    PyObject *result = recorded(self, given, arguments);
    Py_DECREF(arguments);
    return result;
}

static int kernel_init(Kernel *self, PyObject *given, PyObject *named) {
    static char *arguments[] = {"number", "group", "peer",        "waits", "tensors",
                            "depth",  "reduces", "times_group", "rows",
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
                                     "$iiiiiippO" HELD,
#undef X
                                     arguments, &self->number, &self->group, &self->peer,
                                     &self->waits, &self->tensors, &self->depth, &self->reduces,
                                     &self->times_group, &rows
#define X(name) , &name
                                     HELD
#undef X
                                     ))
        return -1;
    self->rows = (Rows *)Py_NewRef(rows);
#define X(name) self->name = Py_NewRef(name);
    HELD
#undef X
    return 0;
}

static void kernel_dealloc(Kernel *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->rows);
#define X(name) Py_XDECREF(self->name);
    HELD
#undef X
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot kernel_slots[] = {
    {Py_tp_init, kernel_init},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_call, kernel_call},
    {0, NULL},
};

PyType_Spec kernel_spec = {
    .name = "steptime.record._recorder.Kernel",
    .basicsize = sizeof(Kernel),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = kernel_slots,
};
