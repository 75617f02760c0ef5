/* Moves: the messages of a batch, as the engine takes them. */

#include "rounds.h"

/* Fill in the rows of a batch's messages between devices, shape (2, messages); rate: bytes/s at which
 * a receiver reduces. */
void make_moves(const struct batch *batch, const int32_t *devices, const struct costs *costs,
                double rate, struct move *rows) {
    int64_t size = batch->rounds.rows;
    const int32_t *ranks = batch->ends.at;
    for (int64_t row = 0; row < size; row++)
        rows[row] = (struct move){
            .nbytes = batch->nbytes.at[row],
            .latency = costs->latency.at[row],
            .reduce = batch->reduced.at[row] / rate,
            .held = costs->held.at[row],
            .weight = costs->weight.at[row],
            .rank = {ranks[row], ranks[size + row]},
            .device = {devices[row], devices[size + row]},
            .round = batch->rounds.at[row],
        };
}
