/* Collectives whose messages never share a link: their times, round by round, without events. */

#include "unshared.h"

#include <math.h>

/* Let one message arrive; false when it would share a link. */
static bool pass(struct network *net, const struct moves *moves, struct progress *progress,
                 int64_t row) {
    double *entered = progress->entered.at, *leaving = progress->leaving.at;
    double *until = progress->until.at;
    const struct move *move = moves->rows.at + row;
    const int32_t *path = moves->paths.at + row * moves->paths.width;
    int32_t src = move->rank[0], dst = move->rank[1];
    double nbytes = move->nbytes, rate = INFINITY;
    double start = most(entered[src], entered[dst]) + move->latency;
    int64_t hops = 0;
    for (; hops < moves->paths.width && path[hops] != NONE; hops++) {
        struct link *link = net->links.at + path[hops];
        link->nbytes += nbytes;
        rate = least(rate, link->bandwidth);
    }
    double done = start + nbytes / rate;
    for (int64_t hop = 0; hop < hops; hop++) {
        if (!(nbytes > 0 && net->links.at[path[hop]].bandwidth < INFINITY)) continue;
        if (start < until[path[hop]] * (1 - SAME)) return false;
        until[path[hop]] = done;
    }
    widen(net, done);
    record(net, path, hops, nbytes, start, done);
    leaving[src] = most(leaving[src], done);
    leaving[dst] = most(leaving[dst], done);
    progress->busy.at[dst] += move->reduce;
    net->counts.at->messages += src != dst;
    return true;
}

/* Let a rank that had messages in a round enter the next one. */
static void go_on(struct progress *progress, int32_t rank) {
    double *leaving = progress->leaving.at + rank, *busy = progress->busy.at + rank;
    if (*leaving < 0) return;
    progress->entered.at[rank] = *leaving + *busy;
    *leaving = -1;
    *busy = 0;
}

/* Let all messages of some rounds arrive; returns false when two would share a link.
 *
 * After the last rounds time moves on to when the last rank is done. Without events this takes a
 * fraction of the engine's time.
 */
bool follow(struct network *net, const struct moves *moves, struct progress *progress, bool last) {
    const struct move *rows = moves->rows.at;
    for (int64_t begin = 0, end; begin < moves->rows.rows; begin = end) {
        for (end = begin; end < moves->rows.rows && rows[end].round == rows[begin].round; end++)
            if (!pass(net, moves, progress, end)) return false;
        for (int64_t row = begin; row < end; row++) {
            go_on(progress, rows[row].rank[0]);
            go_on(progress, rows[row].rank[1]);
        }
    }
    if (last) {
        double now = net->counts.at->now;
        for (int64_t rank = 0; rank < progress->entered.rows; rank++)
            now = most(now, progress->entered.at[rank]);
        move_to(net, now);
    }
    return true;
}
