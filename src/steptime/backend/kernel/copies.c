/* The collectives that move parts: broadcast, all_gather, reduce_scatter, all_to_all.

   Each has three ways. What fits into a slot goes there before the one point of the barrier. Larger
   tensors in arenas are read where they are, between two points. All others go through the slots in
   blocks, one point a block: while some still read one set of slots, others fill the other. */

#include "collectives.h"

#include <string.h>

#define LINE_BYTES 128

static void copy(uint8_t *target, const uint8_t *source, size_t bytes) {
    if (target != source) memmove(target, source, bytes);
}

/* The bytes of each of ``pieces`` parts of a slot. */
static size_t stride_of(const struct group *group, int pieces) {
    return group->slot_bytes / pieces / LINE_BYTES * LINE_BYTES;
}

/* Whether the first ranks' tensors, or that of ``root``, can be reached where they are. */
static int are_open(const struct group *group, int root) {
    for (int rank = 0; rank < group->ranks; rank++)
        if ((root < 0 || rank == root) && place_of(group, rank) == CLOSED) return 0;
    return 1;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

enum outcome broadcast(struct group *group, const void *call, uint8_t *data, size_t bytes, int root,
                       uint64_t where) {
    int here = group->rank == root, whole = bytes <= group->slot_bytes && bytes < WINDOW_BYTES;
    if (whole) {
        group->turn ^= 1;
        if (here) memcpy(slot_of(group, root), data, bytes);
    }
    enum outcome outcome = arrive(group, call, here ? where : 0, 0);
    if (outcome) return outcome;
    if (whole) {
        if (!here) memcpy(data, slot_of(group, root), bytes);
        return DONE;
    }
    if (are_open(group, root)) {
        uint8_t *source = here ? data : window(group, root, place_of(group, root));
        if (!source) return BROKEN;
        copy(data, source, bytes);
        return pass(group);
    }
    for (size_t start = 0; start < bytes; start += group->slot_bytes) {
        size_t block = least(bytes - start, group->slot_bytes);
        group->turn ^= 1;
        if (here) memcpy(slot_of(group, root), data + start, block);
        if (pass(group)) return BROKEN;
        if (!here) memcpy(data + start, slot_of(group, root), block);
    }
    return DONE;
}

static void gather_block(struct group *group, uint8_t *const *outputs, size_t start, size_t block) {
    for (int rank = 0; rank < group->ranks; rank++)
        if (rank != group->rank) memcpy(outputs[rank] + start, slot_of(group, rank), block);
}

enum outcome all_gather(struct group *group, const void *call, uint8_t *const *outputs,
                        const uint8_t *source, size_t bytes, uint64_t where) {
    int here = group->rank, whole = bytes <= group->slot_bytes && bytes < WINDOW_BYTES;
    if (whole) {
        group->turn ^= 1;
        memcpy(slot_of(group, here), source, bytes);
    }
    enum outcome outcome = arrive(group, call, where, 0);
    if (outcome) return outcome;
    if (whole) {
        gather_block(group, outputs, 0, bytes);
        copy(outputs[here], source, bytes);
        return DONE;
    }
    if (are_open(group, -1)) {
        for (int rank = 0; rank < group->ranks; rank++) {
            const uint8_t *from = rank == here ? source : window(group, rank, place_of(group, rank));
            if (!from) return BROKEN;
            copy(outputs[rank], from, bytes);
        }
        return pass(group);
    }
    for (size_t start = 0; start < bytes; start += group->slot_bytes) {
        size_t block = least(bytes - start, group->slot_bytes);
        group->turn ^= 1;
        memcpy(slot_of(group, here), source + start, block);
        if (pass(group)) return BROKEN;
        copy(outputs[here] + start, source + start, block);
        gather_block(group, outputs, start, block);
    }
    return DONE;
}

/* Copy a block of the part for each other rank into this rank's slot. */
static void offer(struct group *group, uint8_t *const *inputs, size_t start, size_t block) {
    size_t stride = stride_of(group, group->ranks);
    for (int rank = 0; rank < group->ranks; rank++)
        if (rank != group->rank)
            memcpy(slot_of(group, group->rank) + rank * stride, inputs[rank] + start, block);
}

/* Where the parts for this rank are: its own where it is, those of others in their slots. */
static void find_offered(struct group *group, uint8_t *const *inputs, size_t start,
                         const void **parts) {
    size_t stride = stride_of(group, group->ranks);
    for (int rank = 0; rank < group->ranks; rank++)
        parts[rank] = slot_of(group, rank) + group->rank * stride;
    parts[group->rank] = inputs[group->rank] + start;
}

/* The same of tensors in arenas, whose parts follow each other; whether all could be mapped. */
static int find_open(struct group *group, uint8_t *const *inputs, size_t bytes,
                     const void **parts) {
    for (int rank = 0; rank < group->ranks; rank++) {
        int own = rank == group->rank;
        uint8_t *all = own ? inputs[0] : window(group, rank, place_of(group, rank));
        if (!all) return 0;
        parts[rank] = all + group->rank * bytes;
    }
    return 1;
}

static void reduce_parts(struct group *group, const void **parts, uint8_t *output, size_t bytes,
                         const struct reduction *by) {
    void *outs[1] = {output};
    reduce(by, outs, 1, parts, group->ranks, bytes / by->size);
}

enum outcome reduce_scatter(struct group *group, const void *call, uint8_t *output,
                            uint8_t *const *inputs, size_t elements, const struct reduction *by,
                            uint64_t where) {
    size_t bytes = elements * by->size, most = stride_of(group, group->ranks);
    int whole = bytes <= most && bytes * group->ranks < WINDOW_BYTES;
    const void *parts[MOST_RANKS];
    if (whole) {
        group->turn ^= 1;
        offer(group, inputs, 0, bytes);
    }
    enum outcome outcome = arrive(group, call, where, 0);
    if (outcome) return outcome;
    if (whole) {
        find_offered(group, inputs, 0, parts);
        reduce_parts(group, parts, output, bytes, by);
        return DONE;
    }
    if (are_open(group, -1)) {
        if (!find_open(group, inputs, bytes, parts)) return BROKEN;
        reduce_parts(group, parts, output, bytes, by);
        return pass(group);
    }
    for (size_t start = 0; start < bytes; start += most) {
        size_t block = least(bytes - start, most);
        group->turn ^= 1;
        offer(group, inputs, start, block);
        if (pass(group)) return BROKEN;
        find_offered(group, inputs, start, parts);
        reduce_parts(group, parts, output + start, block, by);
    }
    return DONE;
}

static void take(const struct group *group, const void **parts, uint8_t *const *outputs, size_t start,
                 size_t bytes) {
    for (int rank = 0; rank < group->ranks; rank++) copy(outputs[rank] + start, parts[rank], bytes);
}

enum outcome all_to_all(struct group *group, const void *call, uint8_t *const *outputs,
                        uint8_t *const *inputs, size_t bytes, uint64_t where) {
    size_t most = stride_of(group, group->ranks);
    int whole = bytes <= most && bytes * group->ranks < WINDOW_BYTES;
    const void *parts[MOST_RANKS];
    group->turn ^= 1; /* by all ranks, also by those whose parts are not even */
    if (whole) offer(group, inputs, 0, bytes);
    enum outcome outcome = arrive(group, call, where, bytes);
    if (outcome) return outcome;
    for (int rank = 0; rank < group->ranks; rank++)
        if (size_of(group, rank) == CLOSED || size_of(group, rank) != size_of(group, 0))
            return UNEVEN;
    if (whole) {
        find_offered(group, inputs, 0, parts);
        take(group, parts, outputs, 0, bytes);
        return DONE;
    }
    if (are_open(group, -1)) {
        if (!find_open(group, inputs, bytes, parts)) return BROKEN;
        take(group, parts, outputs, 0, bytes);
        return pass(group);
    }
    for (size_t start = 0; start < bytes; start += most) {
        size_t block = least(bytes - start, most);
        group->turn ^= 1;
        offer(group, inputs, start, block);
        if (pass(group)) return BROKEN;
        find_offered(group, inputs, start, parts);
        take(group, parts, outputs, start, block);
    }
    return DONE;
}
