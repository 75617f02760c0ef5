/* Wait: the method by which torch waits for a synchronous call, as Calls.waiting describes it.

   Any other wait is Python's to note, by ``otherwise``, whose name and what else
   attributes tell it has: programs ask every method that they wrap. */

#include "recorder.h"

typedef struct {
    PyObject_HEAD
    Rows *rows;
    PyObject *of_thread, *watchers, *wait, *otherwise;
} Wait;

/* The event of the call that this thread has just made and is to wait for; -1 where there is none,
   OVER where that call is known to be over. */
static int64_t just_made(Wait *self) {
    if (PyList_Size(self->watchers)) return -1;
    PyObject *waiting = PyObject_GetAttr(self->of_thread, names.waiting);
    PyObject *number = PyObject_GetAttr(self->of_thread, names.at_once);
    int64_t event = waiting == Py_False && number ? PyLong_AsLongLong(number) : -1;
    Py_XDECREF(waiting);
    Py_XDECREF(number);
    return event;
}

static PyObject *waited(Wait *self, int64_t event, PyObject *given, PyObject *named) {
    PyObject *came_back = PyObject_GetAttr(self->of_thread, names.returned);
    if (!came_back) return NULL;
    int64_t returned = PyLong_AsLongLong(came_back);
    Py_DECREF(came_back);
    if (set_long(self->of_thread, names.at_once, -1)) return NULL;
    if (PyObject_SetAttr(self->of_thread, names.waiting, Py_True)) return NULL;
    int64_t begin = now();
    PyObject *result = PyObject_Call(self->wait, given, named);
    int64_t end = now();
    if (result)
        rows_waited_at_once(self->rows, event, returned, end);
    else
        rows_waited(self->rows, event, begin, end); // and it has no end: the call failed
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyObject_SetAttr(self->of_thread, names.waiting, Py_False)) PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return result;
}

static PyObject *wait_call(Wait *self, PyObject *given, PyObject *named) {
    int64_t event = just_made(self);
    if (PyErr_Occurred()) return NULL;
    if (event == OVER)
        return set_long(self->of_thread, names.at_once, -1) ? NULL
                                                            : PyObject_Call(self->wait, given, named);
    if (event < 0) return PyObject_Call(self->otherwise, given, named);
    return waited(self, event, given, named);
}

static PyObject *wait_get(Wait *self, PyObject *work, PyObject *type) {
    (void)type;
    return bound_to((PyObject *)self, work);
}

static PyObject *wait_getattro(Wait *self, PyObject *name) {
    return attribute_of((PyObject *)self, self->otherwise, name);
}

static int wait_init(Wait *self, PyObject *given, PyObject *named) {
    static char *arguments[] = {"rows", "of_thread", "watchers", "wait", "otherwise", NULL};
    PyObject *rows, *of_thread, *watchers, *wait, *otherwise;
    if (!PyArg_ParseTupleAndKeywords(given, named, "$OOOOO", arguments, &rows, &of_thread, &watchers,
                                     &wait, &otherwise))
        return -1;
    self->rows = (Rows *)Py_NewRef(rows);
    self->of_thread = Py_NewRef(of_thread);
    self->watchers = Py_NewRef(watchers);
    self->wait = Py_NewRef(wait);
    self->otherwise = Py_NewRef(otherwise);
    return 0;
}

static void wait_dealloc(Wait *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->rows);
    Py_XDECREF(self->of_thread);
    Py_XDECREF(self->watchers);
    Py_XDECREF(self->wait);
    Py_XDECREF(self->otherwise);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot wait_slots[] = {
    {Py_tp_init, wait_init},
    {Py_tp_dealloc, wait_dealloc},
    {Py_tp_call, wait_call},
    {Py_tp_descr_get, wait_get},
    {Py_tp_getattro, wait_getattro},
    {0, NULL},
};

PyType_Spec wait_spec = {
    .name = "steptime.record._recorder.Wait",
    .basicsize = sizeof(Wait),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = wait_slots,
};
