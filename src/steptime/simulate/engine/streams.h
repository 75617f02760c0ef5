/* Streams at fidelity message: streams.py says what each table holds. */

#ifndef STEPTIME_STREAMS_H
#define STEPTIME_STREAMS_H

#include "cores.h"
#include "network.h"
#include "queues.h"

struct task {
    int64_t first, size;
    int32_t members, spare;
    bool whole;
};

#define TASKS(X)          \
    X(int32_t, of)        \
    X(struct task, every)

struct tasks {
    TASKS(TABLE)
};

#define PARTS(X)           \
    X(int64_t, parts_of)   \
    X(int32_t, instance)   \
    X(int32_t, place)

struct parts {
    PARTS(TABLE)
};

#define STREAMS(X)        \
    X(int64_t, done)      \
    X(bool, busy)         \
    X(bool, listed)       \
    X(int64_t, todo)      \
    X(int64_t, counts)    \
    X(int64_t, begun)

struct streams {
    STREAMS(TABLE)
};

int run_streams(struct network *net, const struct queues *queues, const struct parts *parts,
                struct tasks *tasks, const struct moves *moves, struct streams *streams,
                struct cores *cores, struct times *ends);

#endif
