/* The collectives of a group, in the thread that calls them. All ranks make the same call.

   Each has three ways. What fits into a slot goes there before the one point of the barrier. Larger
   tensors in arenas are read where they are, between two points. All others go through the slots in
   blocks, one point a block: while some still read one set of slots, others fill the other. */

#ifndef STEPTIME_COLLECTIVES_H
#define STEPTIME_COLLECTIVES_H

#include "folds.h"
#include "group.h"

/* From this size on, the second point that windows need costs less than the copies they save. */
#define WINDOW_BYTES (32 << 10)

/* Reduce ``elements`` of every rank into those of ``root``, or of EVERYONE. ``where`` is the offset of
   ``data`` in this rank's arena, or CLOSED. */
enum outcome reduce_to(struct group *group, const void *call, uint8_t *data, size_t elements,
                       const struct reduction *by, int root, uint64_t where);

/* Copy the ``bytes`` of ``root`` to all ranks; ``where`` as for reduce_to, for the root alone. */
enum outcome broadcast(struct group *group, const void *call, uint8_t *data, size_t bytes, int root,
                       uint64_t where);

/* Copy the ``bytes`` of rank i to ``outputs[i]`` of the ranks that have outputs, and not NULL.
   ``where`` is that of ``source``; CLOSED too where an output of another rank lies over it. */
enum outcome gather(struct group *group, const void *call, uint8_t *const *outputs,
                    const uint8_t *source, size_t bytes, uint64_t where);

/* Copy the ``bytes`` of ``inputs[i]`` of ``root`` to the output of rank i; the others' are NULL.
   ``places[i]`` is where ``inputs[i]`` lies; CLOSED too where the output lies over it. */
enum outcome scatter(struct group *group, const void *call, uint8_t *output, uint8_t *const *inputs,
                     const uint64_t *places, size_t bytes, int root);

/* Reduce ``inputs[rank]`` of all ranks into ``output`` of each. ``where`` is that of the first input,
   after which the others follow; CLOSED where they do not, or the output lies over another's. */
enum outcome reduce_scatter(struct group *group, const void *call, uint8_t *output,
                            uint8_t *const *inputs, size_t elements, const struct reduction *by,
                            uint64_t where);

/* Copy ``inputs[rank]`` of rank i to ``outputs[i]``, all of ``bytes``, or CLOSED where this rank's are
   not of one size, or overlap. UNEVEN, on all ranks, where that is so on any, or sizes differ: then
   nothing has moved, and ``exchange`` does it. ``where`` is that of the first input, as for
   reduce_scatter. */
enum outcome all_to_all(struct group *group, const void *call, uint8_t *const *outputs,
                        uint8_t *const *inputs, size_t bytes, uint64_t where);

/* What a rank tells the others of the part that it gives to one of them, and of the one it gets. */
struct share {
    uint64_t where, sent, expected; /* CLOSED where an output lies over any input; bytes */
};

/* What ``all_to_all`` has left, of any sizes; the ranks have compared their calls. UNEVEN, on all
   ranks, where one expects another size than it is sent: then ``share_of`` is what each has told. */
enum outcome exchange(struct group *group, uint8_t *const *outputs, uint8_t *const *inputs,
                      const struct share *shares);

static inline const struct share *share_of(const struct group *group, int rank, int other) {
    return (const struct share *)slot_of(group, rank) + other;
}

/* Copy what does not lie there already. */
void copy(uint8_t *target, const uint8_t *source, size_t bytes);

static inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

#endif
