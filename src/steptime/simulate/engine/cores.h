/* Cores that ranks share: cores.py says what each table holds. */

#ifndef STEPTIME_CORES_H
#define STEPTIME_CORES_H

#include "network.h"

#define CORES(X)        \
    X(int32_t, host_of) \
    X(int64_t, cores)   \
    X(int64_t, running) \
    X(double, since)    \
    X(bool, changed)    \
    X(double, left)     \
    X(double, slice)    \
    X(double, asked)    \
    X(int8_t, state)

struct cores {
    CORES(TABLE)
};

/* Whether ranks share cores; else each has its own. */
static inline bool shared(const struct cores *cores) { return cores->host_of.rows > 0; }

void need_core(struct network *net, struct cores *cores, int64_t stream, double seconds);
void rest(struct network *net, struct cores *cores, int64_t stream, double seconds);
bool is_done(struct network *net, struct cores *cores, int64_t stream);
void share_cores(struct network *net, struct cores *cores);

#endif
