/* The collectives of a group, in the thread that calls them. */

#ifndef STEPTIME_COLLECTIVES_H
#define STEPTIME_COLLECTIVES_H

#include "folds.h"
#include "group.h"

/* Reduce ``elements`` of every rank in place. ``where`` is the offset of ``data`` in this rank's
   arena, or CLOSED. Every rank calls it with as many elements, and the same ``by``. */
enum outcome all_reduce(struct group *group, const void *call, uint8_t *data, size_t elements,
                        const struct reduction *by, uint64_t where);

/* From this size on, the second point that windows need costs less than the copies they save. */
#define WINDOW_BYTES (32 << 10)

/* Copy the ``bytes`` of ``root`` to all ranks; ``where`` as for all_reduce, for the root alone. */
enum outcome broadcast(struct group *group, const void *call, uint8_t *data, size_t bytes, int root,
                       uint64_t where);

/* Copy the ``bytes`` of rank i to ``outputs[i]`` of all ranks. ``where`` is that of ``source``;
   CLOSED too where an output of another rank lies over it. */
enum outcome all_gather(struct group *group, const void *call, uint8_t *const *outputs,
                        const uint8_t *source, size_t bytes, uint64_t where);

/* Reduce ``inputs[rank]`` of all ranks into ``output`` of each. ``where`` is that of the first input,
   after which the others follow; CLOSED where they do not, or the output lies over another's. */
enum outcome reduce_scatter(struct group *group, const void *call, uint8_t *output,
                            uint8_t *const *inputs, size_t elements, const struct reduction *by,
                            uint64_t where);

/* Copy ``inputs[rank]`` of rank i to ``outputs[i]``, all of ``bytes``, or CLOSED where this rank's are
   not of one size, or overlap. UNEVEN, on all ranks, where that is so on any, or sizes differ: then
   nothing has moved. ``where`` is that of the first input, as for reduce_scatter. */
enum outcome all_to_all(struct group *group, const void *call, uint8_t *const *outputs,
                        uint8_t *const *inputs, size_t bytes, uint64_t where);

#endif
