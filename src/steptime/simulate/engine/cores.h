/* Cores that ranks share: cores.py says what each table holds. */

#ifndef STEPTIME_CORES_H
#define STEPTIME_CORES_H

#include "network.h"

#define CORES(X)          \
    X(int32_t, host_of)   \
    X(double, cores)      \
    X(int64_t, computing) \
    X(double, since)      \
    X(bool, changed)      \
    X(double, left)

struct cores {
    CORES(TABLE)
};

/* Whether ranks share cores; else each has its own. */
static inline bool shared(const struct cores *cores) { return cores->host_of.rows > 0; }

void take_core(struct network *net, struct cores *cores, int64_t stream, double seconds);
void leave_core(struct network *net, struct cores *cores, int64_t stream);
void share_cores(struct network *net, struct cores *cores);

#endif
