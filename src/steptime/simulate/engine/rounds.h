/* Rounds: the messages of a schedule. */

#ifndef STEPTIME_ROUNDS_H
#define STEPTIME_ROUNDS_H

#include "network.h"

/* As schedule.py has it in TRANSFER. */
struct __attribute__((packed)) transfer {
    int32_t src, dst, first, into, count;
    bool reduce;
};

/* The arrays of a Batch; ends: senders, then receivers. */
#define BATCH(X)         \
    X(int32_t, ends)     \
    X(int32_t, rounds)   \
    X(double, nbytes)    \
    X(double, reduced)

struct batch {
    BATCH(TABLE)
};

/* Room for (ranks + 1), (transfers) and (ranks) numbers, the last -1 at first. */
#define SCRATCH(X)       \
    X(int64_t, start)    \
    X(int64_t, order)    \
    X(int64_t, latest)

struct scratch {
    SCRATCH(TABLE)
};

/* What each message costs beyond its bytes; moves.py says what they are. */
#define COSTS(X)         \
    X(double, latency)   \
    X(double, held)      \
    X(double, weight)

struct costs {
    COSTS(TABLE)
};

/* moves.c */
void make_moves(const struct batch *batch, const int32_t *devices, const struct costs *costs,
                double rate, struct move *rows);

/* rounds.c */
int64_t gather(const struct transfer *transfers, const int64_t *bounds, int64_t rounds, int64_t first,
               const int64_t *offsets, bool inside, struct batch *batch, struct scratch *scratch);

#endif
