/* A call as call.py encodes it: what ranks compare. */

#ifndef STEPTIME_CALL_H
#define STEPTIME_CALL_H

#include <stdint.h>

#include "group.h"

/* Those of call.py's kinds that C makes itself. */
enum kind {
    ALL_REDUCE = 2,
    BROADCAST = 3,
    ALL_GATHER = 5,
    REDUCE_SCATTER = 6,
    ALL_TO_ALL = 9,
    SEND = 10,
};

#define NAME_BYTES 48 /* of a reduction's name */

struct call {
    uint8_t kind, dtype;
    int16_t none;
    int32_t root;
    uint64_t elements;
    char name[NAME_BYTES];
};

_Static_assert(sizeof(struct call) == CALL_WORDS * sizeof(word), "a call has as many words");

#endif
