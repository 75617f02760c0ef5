/* The turn of a lane. */

#include "turn.h"

#include <pthread.h>

static unsigned long forks; /* of this process and those that it comes from */
static PyObject *failure, *not_blocking;

static void count_fork(void) { forks++; }

int turns_begin(void) {
    failure = PyUnicode_InternFromString("failure");
    not_blocking = Py_BuildValue("(O)", Py_False);
    return failure && not_blocking ? pthread_atfork(NULL, NULL, count_fork) : -1;
}

/* The attribute of an attribute. */
static PyObject *within(PyObject *object, const char *name, const char *inner) {
    PyObject *found = PyObject_GetAttrString(object, name), *attribute = NULL;
    if (found) attribute = PyObject_GetAttrString(found, inner);
    Py_XDECREF(found);
    return attribute;
}

int turn_begin(struct turn *turn, PyObject *lane, PyObject *members) {
    turn->lane = Py_NewRef(lane);
    turn->members = Py_NewRef(members);
    turn->tasks = PyObject_GetAttrString(lane, "tasks");
    turn->acquire = within(lane, "turn", "acquire");
    turn->release = within(lane, "turn", "release");
    turn->locked = within(lane, "turn", "locked");
    turn->forks = forks;
    return turn->tasks && turn->acquire && turn->release && turn->locked ? 0 : -1;
}

void turn_end(struct turn *turn) {
    PyObject *held[] = {turn->lane,    turn->members, turn->tasks,
                        turn->acquire, turn->release, turn->locked};
    *turn = (struct turn){0};
    for (size_t at = 0; at < sizeof held / sizeof *held; at++) Py_XDECREF(held[at]);
}

static int has_failed(PyObject *object) {
    PyObject *found = PyObject_GetAttr(object, failure);
    Py_XDECREF(found);
    return found != Py_None;
}

/* Whether this process may make calls, and none comes first. */
static int may_call(const struct turn *turn) {
    return turn->forks == forks && PyObject_Size(turn->tasks) == 0 && !has_failed(turn->lane) &&
           !has_failed(turn->members);
}

int is_clear(const struct turn *turn) {
    if (!may_call(turn)) return 0;
    PyObject *answer = PyObject_CallNoArgs(turn->locked);
    Py_XDECREF(answer);
    return answer == Py_False;
}

int turn_takes(const struct turn *turn) {
    if (!may_call(turn)) return 0;
    PyObject *answer = PyObject_Call(turn->acquire, not_blocking, NULL);
    Py_XDECREF(answer);
    return answer == Py_True;
}

void turn_release(const struct turn *turn) { Py_XDECREF(PyObject_CallNoArgs(turn->release)); }
