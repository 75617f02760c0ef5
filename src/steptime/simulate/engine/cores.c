/* Sharing the cores of a host: the streams that compute on it get equal parts, at most a core each.
 *
 * That is processor sharing (Kleinrock 1967): what an operating system's fair scheduler comes to when
 * what it hands out is short beside what is computed.
 */

#include "cores.h"

/* The part of a core that each of the streams gets which compute on a host. */
static double part_of(const struct cores *cores, int32_t host) {
    double all = cores->cores.at[host], among = (double)cores->computing.at[host];
    return among > all ? all / among : 1;
}

static int64_t streams_of_rank(const struct cores *cores) {
    return cores->left.rows / cores->host_of.rows;
}

/* Note what the streams of a host have computed since their parts last changed. */
static void settle(struct cores *cores, int32_t host, double now) {
    double each = part_of(cores, host) * (now - cores->since.at[host]);
    int64_t width = streams_of_rank(cores);
    cores->since.at[host] = now;
    cores->changed.at[host] = true;
    if (!(each > 0)) return;
    for (int64_t stream = 0; stream < cores->left.rows; stream++)
        if (cores->host_of.at[stream / width] == host && cores->left.at[stream] > 0)
            cores->left.at[stream] = most(cores->left.at[stream] - each, SAME * now);
}

/* Let a stream begin an op that needs a core for so many seconds, which are more than 0. */
void take_core(struct network *net, struct cores *cores, int64_t stream, double seconds) {
    int32_t host = cores->host_of.at[stream / streams_of_rank(cores)];
    settle(cores, host, net->counts.at->now);
    net->events.at[2 * stream + 1].instant = NONE;
    cores->left.at[stream] = seconds;
    cores->computing.at[host]++;
}

/* Let a stream be done with such an op. */
void leave_core(struct network *net, struct cores *cores, int64_t stream) {
    int32_t host = cores->host_of.at[stream / streams_of_rank(cores)];
    settle(cores, host, net->counts.at->now);
    cores->left.at[stream] = 0;
    cores->computing.at[host]--;
}

/* Put anew into the agenda when the ops end of hosts on which some began or ended.
 *
 * Once for all that did at one instant, when each of them has been taken off: an op whose end was
 * due at that instant would else be put there a second time.
 */
void share_cores(struct network *net, struct cores *cores) {
    double now = net->counts.at->now;
    int64_t width = streams_of_rank(cores);
    for (int64_t stream = 0; stream < cores->left.rows; stream++) {
        int32_t host = cores->host_of.at[stream / width];
        if (!cores->changed.at[host] || !(cores->left.at[stream] > 0)) continue;
        drop(net, 2 * stream + 1);
        put(net, 2 * stream + 1, now + cores->left.at[stream] / part_of(cores, host));
    }
    for (int64_t host = 0; host < cores->changed.rows; host++) cores->changed.at[host] = false;
}
