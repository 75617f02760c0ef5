/* Collectives whose messages never share a link: unshared.py says what Progress holds. */

#ifndef STEPTIME_UNSHARED_H
#define STEPTIME_UNSHARED_H

#include "network.h"

#define PROGRESS(X)     \
    X(double, entered)  \
    X(double, leaving)  \
    X(double, busy)     \
    X(double, until)

struct progress {
    PROGRESS(TABLE)
};

bool follow(struct network *net, const struct moves *moves, struct progress *progress, bool last);

#endif
