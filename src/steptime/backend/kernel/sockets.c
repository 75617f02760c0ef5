/* Bytes of several connections moved in one call, without Python's lock.

   What is done with a connection is known beforehand: bytes go into this memory, or out of that. So a
   thread that waits for megabytes is woken as often as some of them come, and Python is not. */

#define _GNU_SOURCE
#include "module.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define MOST_S 0.1 /* without a look at what else has happened, as signals */
#define WORTH (16 << 10) /* bytes to be woken for: an eighth of what the kernel keeps at first */

struct job {
    int worth; /* what the connection wakes for now; 1 before and after */
    Py_buffer memory; /* to fill or to send; ``buf`` is NULL where only events are asked for */
    Py_ssize_t moved; /* -1: the connection is lost */
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Move what can be moved at once; whether there is something to tell. */
static int serve(struct job *job, const struct pollfd *connection) {
    if (!job->memory.buf) return 1;
    char *place = (char *)job->memory.buf + job->moved;
    size_t left = (size_t)(job->memory.len - job->moved);
    ssize_t moved = connection->events & POLLIN
                        ? recv(connection->fd, place, left, MSG_DONTWAIT)
                        : send(connection->fd, place, left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
    if (moved <= 0) job->moved = -1;
    else job->moved += moved;
    return moved <= 0 || job->moved == job->memory.len;
}

/* Be woken for what is left, or for enough of it, and not for each packet. */
static void wake_for(struct job *job, const struct pollfd *connection, Py_ssize_t left) {
    int worth = left > WORTH ? WORTH : (int)left;
    if (!job->memory.buf || !(connection->events & POLLIN) || worth == job->worth) return;
    if (!setsockopt(connection->fd, SOL_SOCKET, SO_RCVLOWAT, &worth, sizeof worth))
        job->worth = worth;
}

/* Wait for the connections, first by looking again and again; returns how many are ready. */
static int await(struct pollfd *connections, nfds_t count, double look_s, int nap_ms, int *slept) {
    double until = now() + look_s;
    int ready;
    while (!(ready = poll(connections, count, 0)) && now() < until) sched_yield();
    if (ready) return ready;
    *slept = 1;
    return poll(connections, count, nap_ms);
}

/* Returns whether it slept before anything came. */
static int move_all(struct job *jobs, struct pollfd *connections, Py_ssize_t count, double look_s,
                    int nap_ms) {
    int slept = 0, first = -1, told = 0;
    double until = now() + MOST_S;
    while (!told) {
        for (Py_ssize_t i = 0; i < count; i++)
            wake_for(&jobs[i], &connections[i], jobs[i].memory.len - jobs[i].moved);
        int ready = await(connections, (nfds_t)count, look_s, nap_ms, &slept);
        if (first < 0) first = slept;
        if (ready <= 0) break;
        for (Py_ssize_t i = 0; i < count; i++)
            if (connections[i].revents) told |= serve(&jobs[i], &connections[i]);
        told |= now() > until;
    }
    for (Py_ssize_t i = 0; i < count; i++) wake_for(&jobs[i], &connections[i], 1);
    return first;
}

static int take(PyObject *given, struct job *job, struct pollfd *connection) {
    int fd, events;
    PyObject *memory;
    if (!PyArg_ParseTuple(given, "iiO", &fd, &events, &memory)) return -1;
    job->worth = 1;
    *connection = (struct pollfd){.fd = fd, .events = (short)events};
    if (memory == Py_None) return 0;
    return PyObject_GetBuffer(memory, &job->memory, events & POLLIN ? PyBUF_WRITABLE : PyBUF_SIMPLE);
}

static PyObject *answers(const struct job *jobs, const struct pollfd *connections, Py_ssize_t count) {
    PyObject *found = PyList_New(count);
    for (Py_ssize_t i = 0; found && i < count; i++) {
        int asks = !jobs[i].memory.buf;
        PyObject *one = PyLong_FromSsize_t(asks ? connections[i].revents : jobs[i].moved);
        if (!one || PyList_SetItem(found, i, one)) Py_CLEAR(found);
    }
    return found;
}

static PyObject *move(PyObject *module, PyObject *given) {
    (void)module;
    PyObject *list, *result = NULL;
    double look_s, nap_s;
    if (!PyArg_ParseTuple(given, "O!dd", &PyList_Type, &list, &look_s, &nap_s)) return NULL;
    Py_ssize_t count = PyList_Size(list), taken = 0;
    struct job *jobs = calloc((size_t)count + 1, sizeof *jobs);
    struct pollfd *connections = calloc((size_t)count + 1, sizeof *connections);
    if (!jobs || !connections) PyErr_NoMemory();
    else
        while (taken < count && !take(PyList_GetItem(list, taken), &jobs[taken], &connections[taken]))
            taken++;
    if (!PyErr_Occurred()) {
        PyThreadState *thread = PyEval_SaveThread();
        int slept = move_all(jobs, connections, count, look_s, (int)(1e3 * nap_s + 1));
        PyEval_RestoreThread(thread);
        PyObject *found = answers(jobs, connections, count);
        if (found) result = Py_BuildValue("NN", PyBool_FromLong(slept), found);
    }
    for (Py_ssize_t i = 0; i < taken; i++)
        if (jobs[i].memory.buf) PyBuffer_Release(&jobs[i].memory);
    free(jobs);
    free(connections);
    return result;
}

PyMethodDef socket_methods[] = {{"move", move, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
