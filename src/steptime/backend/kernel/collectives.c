/* The reductions of whole tensors: all_reduce, reduce. */

#include "collectives.h"

#include <string.h>

#define WHOLE_BYTES (32 << 10) /* of all ranks, up to which each reduces everything for itself */

struct span {
    size_t start, count; /* elements */
};

/* The slice that a rank reduces, cut at multiples of a line of the cache. */
static struct span slice_of(const struct group *group, int rank, size_t elements, size_t size) {
    size_t line = LINE_BYTES / size, lines = (elements + line - 1) / line;
    size_t share = (lines + group->ranks - 1) / group->ranks * line;
    size_t start = share * rank < elements ? share * rank : elements;
    size_t left = elements - start;
    return (struct span){start, left < share ? left : share};
}

static int receives(const struct group *group, int root) {
    return root == EVERYONE || root == group->rank;
}

/* Where the whole fits into the slots: copy in, pass one point, reduce all for oneself. */
static enum outcome reduce_whole(struct group *group, const void *call, uint8_t *data,
                                 size_t elements, const struct reduction *by, int root) {
    group->turn ^= 1;
    memcpy(slot_of(group, group->rank), data, elements * by->size);
    enum outcome outcome = arrive(group, call, CLOSED, 0);
    if (outcome || !receives(group, root)) return outcome;
    const void *ins[MOST_RANKS];
    void *outs[1] = {data};
    for (int rank = 0; rank < group->ranks; rank++) ins[rank] = slot_of(group, rank);
    ins[group->rank] = data;
    reduce(by, outs, 1, ins, group->ranks, elements);
    return DONE;
}

/* Tensors in arenas: each rank reduces its slice of all of them where they are, and writes it to
   those that are to have it. One pass over each byte. */
static enum outcome reduce_windows(struct group *group, uint8_t *const *tensors, size_t elements,
                                   const struct reduction *by, int root) {
    struct span own = slice_of(group, group->rank, elements, by->size);
    const void *ins[MOST_RANKS];
    void *outs[MOST_RANKS];
    for (int rank = 0; rank < group->ranks; rank++)
        ins[rank] = outs[rank] = tensors[rank] + own.start * by->size;
    if (root != EVERYONE) outs[0] = outs[root];
    reduce(by, outs, root == EVERYONE ? group->ranks : 1, ins, group->ranks, own.count);
    return pass(group);
}

/* The rank in whose slot ``rank`` leaves the slice that it reduced. The result takes the place of a
   contribution, so that the lines of the cache change hands once. */
static int place(int rank) { return rank ? 0 : 1; }

static uint8_t *piece(const struct group *group, int owner, int index) {
    return slot_of(group, owner) + index * stride_of(group, group->ranks);
}

/* One block of ordinary tensors: each copies to its slot what the others reduce, reduces its slice
   of the block, and copies the slices that the others reduced if it is to have them. */
static enum outcome reduce_block(struct group *group, uint8_t *data, size_t elements,
                                 const struct reduction *by, int root) {
    struct span slices[MOST_RANKS];
    const void *ins[MOST_RANKS];
    int here = group->rank, gets = receives(group, root);
    group->turn ^= 1;
    for (int rank = 0; rank < group->ranks; rank++) {
        struct span one = slices[rank] = slice_of(group, rank, elements, by->size);
        if (rank != here)
            memcpy(piece(group, here, rank), data + one.start * by->size, one.count * by->size);
        ins[rank] = piece(group, rank, here);
    }
    if (pass(group)) return BROKEN;
    uint8_t *own = data + slices[here].start * by->size;
    ins[here] = own;
    void *outs[2] = {piece(group, place(here), here), own};
    reduce(by, outs, 1 + gets, ins, group->ranks, slices[here].count);
    if (pass(group)) return BROKEN;
    for (int rank = 0; gets && rank < group->ranks; rank++)
        if (rank != here)
            memcpy(data + slices[rank].start * by->size, piece(group, place(rank), rank),
                   slices[rank].count * by->size);
    return DONE;
}

static enum outcome reduce_blocks(struct group *group, uint8_t *data, size_t elements,
                                  const struct reduction *by, int root) {
    size_t block = stride_of(group, group->ranks) / by->size * group->ranks;
    for (size_t start = 0; start < elements; start += block) {
        size_t count = least(elements - start, block);
        if (reduce_block(group, data + start * by->size, count, by, root)) return BROKEN;
    }
    return DONE;
}

enum outcome reduce_to(struct group *group, const void *call, uint8_t *data, size_t elements,
                       const struct reduction *by, int root, uint64_t where) {
    uint8_t *tensors[MOST_RANKS];
    if (elements * by->size * group->ranks <= WHOLE_BYTES)
        return reduce_whole(group, call, data, elements, by, root);
    enum outcome outcome = arrive(group, call, where, 0);
    if (outcome) return outcome;
    if (group->ranks > 1 && !are_open(group, EVERYONE))
        return reduce_blocks(group, data, elements, by, root);
    for (int rank = 0; rank < group->ranks; rank++) {
        tensors[rank] = rank == group->rank ? data : window(group, rank, place_of(group, rank));
        if (!tensors[rank]) return BROKEN;
    }
    return reduce_windows(group, tensors, elements, by, root);
}
