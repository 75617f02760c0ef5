/* all_to_all of parts of any sizes. First the ranks tell each other, in their slots, how much goes from
   whom to whom and where it lies; small parts come along at once. */

#include "collectives.h"

#include <string.h>

/* What a rank's shares take of its slot, and what is left for the parts themselves. */
static size_t shares_bytes(const struct group *group) {
    size_t bytes = (size_t)group->ranks * sizeof(struct share);
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

/* Where the part of a rank for another begins among all of its parts. */
static size_t start_of(const struct group *group, int rank, int other) {
    size_t start = 0;
    for (int before = 0; before < other; before++) start += share_of(group, rank, before)->sent;
    return start;
}

static int is_packed(const struct group *group, int rank) {
    size_t room = least(group->slot_bytes - shares_bytes(group), WINDOW_BYTES);
    return start_of(group, rank, group->ranks) <= room;
}

/* What all ranks know of an exchange once all have told their shares. */
struct terms {
    int equal, packed, open;
    size_t longest;
};

static struct terms terms_of(const struct group *group) {
    struct terms terms = {1, 1, 1, 0};
    for (int rank = 0; rank < group->ranks; rank++) {
        terms.packed &= is_packed(group, rank);
        for (int other = 0; other < group->ranks; other++) {
            const struct share *share = share_of(group, rank, other);
            terms.equal &= share->sent == share_of(group, other, rank)->expected;
            terms.open &= share->where != CLOSED;
            if (share->sent > terms.longest) terms.longest = share->sent;
        }
    }
    return terms;
}

static enum outcome exchange_windows(struct group *group, uint8_t *const *outputs,
                                     uint8_t *const *inputs, const struct share *shares) {
    int here = group->rank;
    for (int rank = 0; rank < group->ranks; rank++) {
        if (!shares[rank].expected) continue;
        const uint8_t *from = rank == here
                                  ? inputs[here]
                                  : window(group, rank, share_of(group, rank, here)->where);
        if (!from) return BROKEN;
        copy(outputs[rank], from, shares[rank].expected);
    }
    return pass(group);
}

/* The bytes of a block of a part that begins at ``start`` of it. */
static size_t rest(size_t bytes, size_t start, size_t block) {
    return bytes > start ? least(bytes - start, block) : 0;
}

static enum outcome exchange_blocks(struct group *group, uint8_t *const *outputs,
                                    uint8_t *const *inputs, const struct share *shares,
                                    size_t longest) {
    size_t most = stride_of(group, group->ranks), own = group->rank * most;
    for (size_t start = 0; start < longest; start += most) {
        group->turn ^= 1;
        for (int rank = 0; rank < group->ranks; rank++)
            if (shares[rank].sent > start)
                memcpy(slot_of(group, group->rank) + rank * most, inputs[rank] + start,
                       rest(shares[rank].sent, start, most));
        if (pass(group)) return BROKEN;
        for (int rank = 0; rank < group->ranks; rank++)
            if (shares[rank].expected > start)
                memcpy(outputs[rank] + start, slot_of(group, rank) + own,
                       rest(shares[rank].expected, start, most));
    }
    return DONE;
}

enum outcome exchange(struct group *group, uint8_t *const *outputs, uint8_t *const *inputs,
                      const struct share *shares) {
    int here = group->rank;
    size_t skipped = shares_bytes(group);
    group->turn ^= 1;
    memcpy(slot_of(group, here), shares, (size_t)group->ranks * sizeof *shares);
    if (is_packed(group, here))
        for (int rank = 0; rank < group->ranks; rank++)
            if (shares[rank].sent)
                memcpy(slot_of(group, here) + skipped + start_of(group, here, rank), inputs[rank],
                       shares[rank].sent);
    if (pass(group)) return BROKEN;
    struct terms terms = terms_of(group);
    if (!terms.equal) return UNEVEN;
    if (terms.open && !terms.packed) return exchange_windows(group, outputs, inputs, shares);
    if (!terms.packed) return exchange_blocks(group, outputs, inputs, shares, terms.longest);
    for (int rank = 0; rank < group->ranks; rank++)
        if (shares[rank].expected)
            memcpy(outputs[rank], slot_of(group, rank) + skipped + start_of(group, rank, here),
                   shares[rank].expected);
    return DONE;
}
