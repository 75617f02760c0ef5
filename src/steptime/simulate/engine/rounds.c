/* Rounds: the messages of a schedule, merged from its transfers. */

#include "rounds.h"

#include <string.h>

/* Put the transfers from begin to before past in the order of their senders (counting sort). */
static void sort(const struct transfer *transfers, int64_t begin, int64_t past,
                 struct scratch *scratch) {
    int64_t *start = scratch->start.at;
    memset(start, 0, (size_t)scratch->start.rows * sizeof *start);
    for (int64_t place = begin; place < past; place++) start[transfers[place].src + 1]++;
    for (int64_t rank = 0; rank + 1 < scratch->start.rows; rank++) start[rank + 1] += start[rank];
    for (int64_t place = begin; place < past; place++)
        scratch->order.at[start[transfers[place].src]++] = place;
}

/* Merge the transfers of each round from one rank to the same other into messages.
 *
 * Round first + i has the transfers from bounds[i] to bounds[i + 1]. Bytes of the batch are 0 at
 * first; returns how many messages there are.
 */
int64_t gather(const struct transfer *transfers, const int64_t *bounds, int64_t rounds, int64_t first,
               const int64_t *offsets, bool inside, struct batch *batch, struct scratch *scratch) {
    int32_t *senders = batch->ends.at, *receivers = batch->ends.at + batch->ends.width;
    int64_t count = 0;
    for (int64_t number = 0; number < rounds; number++) {
        int64_t size = bounds[number + 1] - bounds[number];
        sort(transfers, bounds[number], bounds[number + 1], scratch);
        int64_t here = count; /* the first message from the same rank in this round */
        int32_t src = -1;
        for (int64_t place = 0; place < size; place++) {
            const struct transfer *row = transfers + scratch->order.at[place];
            if (row->src != src) {
                src = row->src;
                here = count;
            }
            if (row->src == row->dst && !(inside && row->reduce)) continue;
            int64_t message = scratch->latest.at[row->dst];
            if (message < here) {
                message = scratch->latest.at[row->dst] = count++;
                senders[message] = row->src;
                receivers[message] = row->dst;
                batch->rounds.at[message] = (int32_t)(first + number);
            }
            int64_t nbytes = offsets[row->first + row->count] - offsets[row->first];
            batch->nbytes.at[message] += (double)nbytes;
            if (row->reduce) batch->reduced.at[message] += (double)nbytes;
        }
    }
    return count;
}
