/* What C++ is given of this module, as event.h has it. */

#include "recorder.h"

static int64_t next_number(PyObject *rows) { return ((Rows *)rows)->next; }

static const struct event *read_event(PyObject *rows, int64_t number) {
    return rows_at((Rows *)rows, number);
}

static int64_t write_event(PyObject *rows, const struct event *event) {
    return rows_write((Rows *)rows, event);
}

static void returned(PyObject *rows, int64_t number, int64_t when) {
    struct event *at = rows_at((Rows *)rows, number);
    if (at) at->returned = when;
}

static void came_back(PyObject *rows, int64_t number, int64_t when) {
    rows_came_back((Rows *)rows, number, when);
}

static void waited_at_once(PyObject *rows, int64_t number, int64_t returned, int64_t end) {
    rows_waited_at_once((Rows *)rows, number, returned, end);
}

static int has_marks(PyObject *marks) { return Py_TYPE(marks) == marks_type; }

static int take(PyObject *marks) { return marks_take((Marks *)marks); }

static void keep(PyObject *marks, int64_t event, int time, int mark) {
    if (mark != NO_MARK) marks_keep((Marks *)marks, event, time, mark);
}

static uint64_t generation(PyObject *rows) { return ((Rows *)rows)->generation; }

static void end(PyObject *rows, uint64_t generation, int64_t number, int64_t when) {
    rows_end_anywhere((Rows *)rows, generation, number, when);
}

const struct recorder_functions functions = {
    .site = kernel_site,
    .next = next_number,
    .read = read_event,
    .write = write_event,
    .returned = returned,
    .came_back = came_back,
    .waited_at_once = waited_at_once,
    .has_marks = has_marks,
    .take = take,
    .keep = keep,
    .generation = generation,
    .end = end,
};
