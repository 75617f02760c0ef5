/* Dividing each rank's step into phases: division.py says what each table holds. */

#ifndef STEPTIME_DIVISION_H
#define STEPTIME_DIVISION_H

#include "queues.h"

/* Of each stream of a rank. */
#define HERE(X)          \
    X(int64_t, step)     \
    X(int64_t, at)       \
    X(double, since)     \
    X(double, until)     \
    X(double, moves)     \
    X(uint8_t, does)

struct here {
    HERE(TABLE)
};

void fill_starts(const struct queues *queues, const struct times *ends, int64_t rank,
                 struct times *starts);
void fill_starts_of_calls(const struct queues *queues, const struct times *ends,
                          struct times *scratch, struct times *starts);
void divide(const struct queues *queues, const uint8_t *phase, const struct times *ready,
            const struct times *ends, const double *begin, const double *finish, int64_t ranks,
            struct here *here, struct times *starts, double *totals);

#endif
