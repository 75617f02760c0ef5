/* What the recorder in C has for the kernels in C++, which cannot include Python's stable interface. */

#ifndef STEPTIME_EVENT_H
#define STEPTIME_EVENT_H

#include <stdint.h>

/* As rows.py has it in EVENT. */
struct event {
    uint8_t kind, operation, flags, spare;
    uint16_t group, thread;
    int32_t peer;
    uint32_t site, signature, spare_too;
    int64_t bytes, address, issued, returned, ended, wait_begin, wait_end;
};

enum { CALL = 1, ASYNC = 1, ISSUED = 0, RETURNED = 1 }; /* as events.py has them */
enum { NO_MARK = -1 };

/* The capsule ``functions`` of _recorder. All but ``end`` ask for the interpreter's lock; ``rows``
   and ``kernel`` are objects of the types Rows and Kernel. */
struct recorder_functions {
    /* The number of the innermost place of the script; -1 with an exception set. */
    int64_t (*site)(PyObject *kernel);
    /* The number of the event that is written next. */
    int64_t (*next)(PyObject *rows);
    /* An event that is written down; NULL where there is no room for it. */
    const struct event *(*read)(PyObject *rows, int64_t number);
    int64_t (*write)(PyObject *rows, const struct event *event);
    void (*returned)(PyObject *rows, int64_t number, int64_t when);
    void (*came_back)(PyObject *rows, int64_t number, int64_t when);
    void (*waited_at_once)(PyObject *rows, int64_t number, int64_t returned, int64_t end);
    /* Whether marks of a GPU are those of marks.c; then where it is now, NO_MARK or such a number,
       and to keep that as one of a time of an event. */
    int (*has_marks)(PyObject *marks);
    int (*take)(PyObject *marks);
    void (*keep)(PyObject *marks, int64_t event, int time, int mark);
    /* Which file the rows are of, and the end of one of its events, from any thread. */
    uint64_t (*generation)(PyObject *rows);
    void (*end)(PyObject *rows, uint64_t generation, int64_t number, int64_t when);
};

#define FUNCTIONS "steptime.record._recorder.functions"

#endif
