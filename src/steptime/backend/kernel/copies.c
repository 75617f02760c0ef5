/* The collectives that copy whole tensors: broadcast, all_gather, gather. */

#include "collectives.h"

#include <string.h>

void copy(uint8_t *target, const uint8_t *source, size_t bytes) {
    if (target != source) memmove(target, source, bytes);
}

enum outcome broadcast(struct group *group, const void *call, uint8_t *data, size_t bytes, int root,
                       uint64_t where) {
    int here = group->rank == root, whole = bytes <= group->slot_bytes && bytes < WINDOW_BYTES;
    if (whole) {
        group->turn ^= 1;
        if (here) memcpy(slot_of(group, root), data, bytes);
    }
    enum outcome outcome = arrive(group, call, where, 0);
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

/* Copy a block of every rank out of the slots, but for what lies in its place. */
static void gather_block(struct group *group, uint8_t *const *outputs, const uint8_t *source,
                         size_t start, size_t block) {
    for (int rank = 0; outputs && rank < group->ranks; rank++)
        if (outputs[rank] != source) memcpy(outputs[rank] + start, slot_of(group, rank), block);
}

enum outcome gather(struct group *group, const void *call, uint8_t *const *outputs,
                    const uint8_t *source, size_t bytes, uint64_t where) {
    int here = group->rank, whole = bytes <= group->slot_bytes && bytes < WINDOW_BYTES;
    if (whole) {
        group->turn ^= 1;
        memcpy(slot_of(group, here), source, bytes);
    }
    enum outcome outcome = arrive(group, call, where, 0);
    if (outcome) return outcome;
    if (whole) {
        gather_block(group, outputs, source, 0, bytes);
        return DONE;
    }
    if (are_open(group, EVERYONE)) {
        for (int rank = 0; outputs && rank < group->ranks; rank++) {
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
        gather_block(group, outputs, source, start, block);
    }
    return DONE;
}
