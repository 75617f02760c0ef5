/* The collectives that move parts of tensors: scatter, reduce_scatter, all_to_all. */

#include "collectives.h"

#include <string.h>

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

/* The whole of small parts goes through a slot. Of larger ones ``root`` tells in its slot where they
   lie, and by its own place whether all can be reached. */
enum outcome scatter(struct group *group, const void *call, uint8_t *output, uint8_t *const *inputs,
                     const uint64_t *places, size_t bytes, int root) {
    size_t most = stride_of(group, group->ranks), offset = group->rank * most;
    int here = group->rank == root, whole = bytes <= most && bytes * group->ranks < WINDOW_BYTES;
    uint64_t where = 0;
    group->turn ^= 1;
    if (here && whole) offer(group, inputs, 0, bytes);
    for (int rank = 0; here && !whole && rank < group->ranks; rank++) {
        ((uint64_t *)slot_of(group, root))[rank] = places[rank];
        if (places[rank] == CLOSED) where = CLOSED;
    }
    enum outcome outcome = arrive(group, call, where, 0);
    if (outcome) return outcome;
    if (whole) {
        copy(output, here ? inputs[root] : slot_of(group, root) + offset, bytes);
        return DONE;
    }
    if (are_open(group, root)) {
        uint64_t place = ((uint64_t *)slot_of(group, root))[group->rank];
        uint8_t *source = here ? inputs[root] : window(group, root, place);
        if (!source) return BROKEN;
        copy(output, source, bytes);
        return pass(group);
    }
    for (size_t start = 0; start < bytes; start += most) {
        size_t block = least(bytes - start, most);
        group->turn ^= 1;
        if (here) offer(group, inputs, start, block);
        if (pass(group)) return BROKEN;
        copy(output + start, here ? inputs[root] + start : slot_of(group, root) + offset, block);
    }
    return DONE;
}

/* Where the parts for this rank are of tensors in arenas, whose parts follow each other; whether
   all could be mapped. */
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
    if (are_open(group, EVERYONE)) {
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
    if (are_open(group, EVERYONE)) {
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
