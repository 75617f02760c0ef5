/* Times by recurrence: recurrence.py says what each table holds. */

#ifndef STEPTIME_RECURRENCE_H
#define STEPTIME_RECURRENCE_H

#include "queues.h"

#define PRICES(X)          \
    X(int64_t, missing)    \
    X(int64_t, parts_of)   \
    X(int32_t, instance)   \
    X(double, seconds)

struct prices {
    PRICES(TABLE)
};

#define CALLS(X)           \
    X(int64_t, missing)    \
    X(double, finish)      \
    X(int64_t, waiting)    \
    X(int64_t, following)

struct calls {
    CALLS(TABLE)
};

#define TODO(X)          \
    X(bool, arrived)     \
    X(int64_t, stack)    \
    X(bool, listed)

struct todo {
    TODO(TABLE)
};

/* Of each stream: how many ops it has done and when it is free; of each rank op: when it ended in
 * the step before, and ends in this one. */
struct step {
    int64_t *done;
    double *free;
    const double *before;
    double *ends;
};

void run_step(const struct queues *queues, const struct prices *prices, struct calls *calls,
              struct todo *todo, struct step step);

#endif
