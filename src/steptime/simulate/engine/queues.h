/* Queues: the ops of every rank's streams; queues.py says what each table holds. */

#ifndef STEPTIME_QUEUES_H
#define STEPTIME_QUEUES_H

#include "tables.h"

enum { COMPUTE, WAIT, COMMUNICATE }; /* what an op does: its code */

#define QUEUES(X)            \
    X(int32_t, class_of)     \
    X(int32_t, ops_of)       \
    X(int8_t, code)          \
    X(double, seconds)       \
    X(int32_t, part)         \
    X(int32_t, after_of)     \
    X(int32_t, after)        \
    X(int32_t, wakes_of)     \
    X(int32_t, wakes)        \
    X(int32_t, queue_of)     \
    X(int32_t, queue)        \
    X(int64_t, rank_ops_of)  \
    X(double, speed)

struct queues {
    QUEUES(TABLE)
};

/* Seconds of all rank ops, or of those of one rank, in each step. */
struct times {
    double *at;
    int64_t steps, width;
};

/* A queue: the stream of a rank, and where among all it begins. */
struct queue {
    int64_t rank, class, first, length;
};

/* How many streams a rank has. */
static inline int64_t streams_of(const struct queues *queues) { return queues->queue_of.width - 1; }

/* The queue of a stream, by its number among those of all ranks. */
static inline struct queue queue_of(const struct queues *queues, int64_t stream) {
    int64_t streams = streams_of(queues), rank = stream / streams;
    int64_t class = queues->class_of.at[rank];
    const int32_t *own = queues->queue_of.at + class * queues->queue_of.width + stream % streams;
    return (struct queue){rank, class, own[0], own[1] - own[0]};
}

#endif
