/* The collectives of a group, in the thread that calls them. */

#ifndef STEPTIME_COLLECTIVES_H
#define STEPTIME_COLLECTIVES_H

#include "folds.h"
#include "group.h"

/* Reduce ``elements`` of every rank in place. ``where`` is the offset of ``data`` in this rank's
   arena, or CLOSED. Every rank calls it with as many elements, and the same ``by``. */
enum outcome all_reduce(struct group *group, const void *call, uint8_t *data, size_t elements,
                        const struct reduction *by, uint64_t where);

#endif
