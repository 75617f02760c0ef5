/* Marks: when a GPU comes to what a script asks of it, by events of CUDA; as device.py describes.

   The functions of CUDA's runtime are called by their addresses, which Python finds, for the
   recorder is built where there is no CUDA. All of this runs with the interpreter's lock held, but
   for the recording of an event: where a GPU's queue is full that waits until there is room, and
   another thread may have to do something for that. */

#include "recorder.h"

#include <string.h>
#include <unistd.h>

enum { DEVICES = 64, LOOKED_AT_ONCE = 32, WRITTEN_AT_ONCE = 64 };
enum { NOT_READY = 600, NON_BLOCKING = 1 }; /* of CUDA: cudaErrorNotReady, cudaStreamNonBlocking */

static const int64_t ORIGIN_EVERY_NS = 1000000000, ORIGIN_WITHIN_NS = 200000;

typedef void *CudaEvent;
typedef void *CudaStream;

/* Those functions, each with an ``int`` of which 0 is success. */
struct cuda {
    int (*current_device)(int *);
    int (*is_capturing)(CudaStream, int *);
    int (*create_stream)(CudaStream *, unsigned);
    int (*create)(CudaEvent *, unsigned);
    int (*record)(CudaEvent, CudaStream);
    int (*query)(CudaEvent);
    int (*elapsed)(float *, CudaEvent, CudaEvent);
    int (*destroy)(CudaEvent);
    int (*destroy_stream)(CudaStream);
    int (*forget_error)(void);
};

/* An event and where it was recorded. ``next``: the mark after it among those that are free, or
   among those that the GPU has to pass. */
struct mark {
    CudaEvent event;
    int64_t stream, at; /* which time of which event of the log it is */
    int device, time, next;
};

/* A GPU. ``origin``: an event that it passed when the script's clock was ``origin_at``, once it has
   ``passed`` that; ``spare``: the next one. */
struct device {
    CudaStream side;
    CudaEvent origin, spare;
    int64_t origin_at;
    int passed, free;
};

/* What is written of a mark, without padding: event, time, stream, nanoseconds. */
enum { RECORD = 4 + 1 + 8 + 8 };

struct Marks {
    PyObject_HEAD
    PyObject *current_stream; /* tells a device's, by its address */
    struct cuda cuda;
    struct device devices[DEVICES];
    struct mark *marks;
    int count, first, last, waiting; /* of marks: how many; those that the GPU has to pass */
    int file, filled; /* -1: closed, and a thread that comes late makes no mark any longer */
    char records[WRITTEN_AT_ONCE * RECORD];
};

PyTypeObject *marks_type;

/* A status of CUDA's, which does not remember it: the script would be told of it by its next kernel,
   and that a GPU has not yet passed an event is none of its errors. Of a kernel that failed it hears
   all the same, for that is not forgotten. */
static int of(Marks *self, int status) {
    if (status) self->cuda.forget_error();
    return status;
}

/* Write what is noted; what cannot be is lost, as it would be at the end of a full disk. */
static void flush(Marks *self) {
    ssize_t written = write(self->file, self->records, self->filled);
    (void)written;
    self->filled = 0;
}

/* Read the GPU's clock beside the script's, by an event on a stream with nothing else. False where
   the GPU does not come to that at once, as one whose streams all share a queue. */
static int find_origin(Marks *self, struct device *device) {
    if (of(self, self->cuda.record(device->spare, device->side))) return 0;
    int64_t deadline = now() + ORIGIN_WITHIN_NS;
    int status = self->cuda.query(device->spare);
    while (status == NOT_READY && now() < deadline) status = self->cuda.query(device->spare);
    of(self, status);
    int done = status == 0;
    if (done || !device->origin_at) {
        CudaEvent before = device->origin;
        device->origin = device->spare;
        device->spare = before;
        device->origin_at = now();
        device->passed = done;
    }
    return done;
}

static int begin_device(Marks *self, struct device *device) {
    struct cuda *cuda = &self->cuda;
    if (device->side) return 0;
    device->free = NO_MARK;
    if (of(self, cuda->create(&device->origin, 0))) return -1;
    if (of(self, cuda->create(&device->spare, 0))) return -1;
    if (of(self, cuda->create_stream(&device->side, NON_BLOCKING))) return -1;
    find_origin(self, device);
    return 0;
}

/* A mark that is free, with an event; NO_MARK where there can be none. */
static int free_mark(Marks *self, int number) {
    struct device *device = &self->devices[number];
    int found = device->free;
    if (found != NO_MARK) {
        device->free = self->marks[found].next;
        return found;
    }
    if (self->count % WRITTEN_AT_ONCE == 0) {
        size_t room = (self->count + WRITTEN_AT_ONCE) * sizeof(struct mark);
        struct mark *marks = PyMem_Realloc(self->marks, room);
        if (!marks) return NO_MARK;
        self->marks = marks;
    }
    struct mark *mark = &self->marks[self->count];
    *mark = (struct mark){.device = number};
    return of(self, self->cuda.create(&mark->event, 0)) ? NO_MARK : self->count++;
}

static void let_go(Marks *self, int number) {
    struct device *device = &self->devices[self->marks[number].device];
    self->marks[number].next = device->free;
    device->free = number;
}

static int64_t stream_of(Marks *self, int device) {
    PyObject *number = PyLong_FromLong(device);
    PyObject *stream =
        number ? PyObject_CallFunctionObjArgs(self->current_stream, number, NULL) : NULL;
    Py_XDECREF(number);
    int64_t found = stream ? (int64_t)PyLong_AsUnsignedLongLong(stream) : -1;
    Py_XDECREF(stream);
    return found;
}

int marks_take(Marks *self) {
    int device, capturing;
    if (self->file < 0 || of(self, self->cuda.current_device(&device))) return NO_MARK;
    if (device < 0 || device >= DEVICES) return NO_MARK;
    int64_t stream = stream_of(self, device);
    if (PyErr_Occurred()) return NO_MARK;
    CudaStream on = (CudaStream)(intptr_t)stream;
    if (of(self, self->cuda.is_capturing(on, &capturing)) || capturing) return NO_MARK;
    if (begin_device(self, &self->devices[device])) return NO_MARK;
    int taken = free_mark(self, device);
    if (taken == NO_MARK) return NO_MARK;
    CudaEvent event = self->marks[taken].event; /* another thread may move the marks meanwhile */
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = self->cuda.record(event, on);
    Py_END_ALLOW_THREADS
    self->marks[taken].stream = stream;
    if (!of(self, status)) return taken;
    let_go(self, taken);
    return NO_MARK;
}

/* Note when the GPU passed a mark, after its device's origin. */
static void note(Marks *self, int number) {
    struct mark *mark = &self->marks[number];
    struct device *device = &self->devices[mark->device];
    float past_ms;
    if (!of(self, self->cuda.elapsed(&past_ms, device->origin, mark->event))) {
        int64_t past = (int64_t)(1e6 * past_ms + 0.5), when = device->origin_at + past;
        uint32_t at = (uint32_t)mark->at;
        uint8_t time = (uint8_t)mark->time;
        char *record = self->records + self->filled;
        memcpy(record, &at, 4);
        memcpy(record + 4, &time, 1);
        memcpy(record + 5, &mark->stream, 8);
        memcpy(record + 13, &when, 8);
        self->filled += RECORD;
        if (self->filled == sizeof self->records) flush(self);
        if (past > ORIGIN_EVERY_NS && !find_origin(self, device)) {
            CudaEvent before = device->origin;
            device->origin = mark->event;
            device->origin_at = when;
            mark->event = before;
        }
    }
    let_go(self, number);
}

/* 0 where the GPU has passed a mark, NOT_READY where not yet. */
static int passed(Marks *self, const struct mark *mark) {
    struct device *device = &self->devices[mark->device];
    int status = of(self, self->cuda.query(mark->event));
    if (status || device->passed) return status;
    status = of(self, self->cuda.query(device->origin));
    device->passed = status == 0;
    return status;
}

/* Note the marks that the GPU has passed, in the order in which they were kept. */
static void drain(Marks *self) {
    while (self->waiting) {
        int number = self->first, status = passed(self, &self->marks[number]);
        if (status == NOT_READY) return;
        self->first = self->marks[number].next;
        self->waiting--;
        if (status == 0)
            note(self, number);
        else
            let_go(self, number);
    }
}

void marks_keep(Marks *self, int64_t event, int time, int number) {
    if (number < 0 || number >= self->count) return;
    struct mark *mark = &self->marks[number];
    mark->at = event;
    mark->time = time;
    if (self->waiting++)
        self->marks[self->last].next = number;
    else
        self->first = number;
    self->last = number;
    if (self->waiting >= LOOKED_AT_ONCE) drain(self);
}

static PyObject *marks_taken(Marks *self, PyObject *unused) {
    (void)unused;
    int number = marks_take(self);
    if (PyErr_Occurred()) return NULL;
    if (number == NO_MARK) Py_RETURN_NONE;
    return PyLong_FromLong(number);
}

static PyObject *marks_kept(Marks *self, PyObject *given) {
    long long event;
    int time;
    PyObject *mark;
    if (!PyArg_ParseTuple(given, "LiO", &event, &time, &mark)) return NULL;
    if (mark == Py_None) Py_RETURN_NONE;
    long number = PyLong_AsLong(mark);
    if (PyErr_Occurred()) return NULL;
    marks_keep(self, event, time, (int)number);
    Py_RETURN_NONE;
}

/* Note what the GPU has passed; how many marks it has to pass yet. */
static PyObject *marks_drained(Marks *self, PyObject *unused) {
    (void)unused;
    drain(self);
    return PyLong_FromLong(self->waiting);
}

/* Write what is noted, and have no events any longer. */
static PyObject *marks_close(Marks *self, PyObject *unused) {
    (void)unused;
    flush(self);
    for (int number = 0; number < self->count; number++)
        self->cuda.destroy(self->marks[number].event);
    for (int number = 0; number < DEVICES; number++) {
        struct device *device = &self->devices[number];
        if (!device->side) continue;
        self->cuda.destroy(device->origin);
        self->cuda.destroy(device->spare);
        self->cuda.destroy_stream(device->side);
        device->side = NULL;
    }
    self->count = self->waiting = 0;
    self->file = -1;
    Py_RETURN_NONE;
}

static int marks_init(Marks *self, PyObject *given, PyObject *named) {
    static char *arguments[] = {"file", "current_stream", "functions", NULL};
    PyObject *current_stream, *functions;
    if (!PyArg_ParseTupleAndKeywords(given, named, "$iOO", arguments, &self->file, &current_stream,
                                     &functions))
        return -1;
    void *addresses[sizeof(struct cuda) / sizeof(void *)];
    for (size_t at = 0; at < sizeof addresses / sizeof *addresses; at++) {
        PyObject *address = PySequence_GetItem(functions, (Py_ssize_t)at);
        addresses[at] = address ? PyLong_AsVoidPtr(address) : NULL;
        Py_XDECREF(address);
        if (PyErr_Occurred()) return -1;
    }
    memcpy(&self->cuda, addresses, sizeof self->cuda);
    self->current_stream = Py_NewRef(current_stream);
    return 0;
}

static void marks_dealloc(Marks *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF(self->current_stream);
    PyMem_Free(self->marks);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef marks_methods[] = {
    {"take", (PyCFunction)marks_taken, METH_NOARGS, NULL},
    {"keep", (PyCFunction)marks_kept, METH_VARARGS, NULL},
    {"drain", (PyCFunction)marks_drained, METH_NOARGS, NULL},
    {"close", (PyCFunction)marks_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot marks_slots[] = {
    {Py_tp_init, marks_init},
    {Py_tp_dealloc, marks_dealloc},
    {Py_tp_methods, marks_methods},
    {0, NULL},
};

PyType_Spec marks_spec = {
    .name = "steptime.record._recorder.Marks",
    .basicsize = sizeof(Marks),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = marks_slots,
};
