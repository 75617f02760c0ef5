/* The turn of a lane (lanes.py), as C takes it: without a function of Python's.

   What is asked here holds while the caller keeps the interpreter's lock. */

#ifndef STEPTIME_TURN_H
#define STEPTIME_TURN_H

#include "module.h"

struct turn {
    PyObject *lane, *members;
    PyObject *tasks, *acquire, *release, *locked; /* of the lane */
    unsigned long forks;
};

/* Of a Lane and the Members of its group; 0, or -1 (an error is set). */
int turn_begin(struct turn *turn, PyObject *lane, PyObject *members);

/* Let go of what ``turn_begin`` holds. */
void turn_end(struct turn *turn);

/* Whether no call is queued or in progress, and none has failed, in this process. */
int is_clear(const struct turn *turn);

/* Take the turn if it is clear: whether so. Then ``turn_release``. */
int turn_takes(const struct turn *turn);
void turn_release(const struct turn *turn);

#endif
