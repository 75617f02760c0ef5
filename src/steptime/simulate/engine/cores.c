/* Handing out the cores of a host in turns, as an operating system does.
 *
 * Whoever waits longest gets the next core, and keeps it until its op is done or, if others wait, its
 * slice of time is over. So ranks whose ops are short run one after another, and one computes while a
 * call of others is under way; sharing evenly at each instant would have them all end together.
 */

#include "cores.h"

#include <math.h>

/* Seconds. Linux's base slice is 0.7 to 2.8 ms by the number of cores, and ends at a tick, of 1 to
 * 4 ms (kernel/sched/fair.c, 6.12). */
#define SLICE 3e-3

#define NOTHING 1e-18 /* seconds that only rounding leaves */

enum { AWAY, WAITING_FOR_CORE, RUNNING, RESTING };

static int64_t streams_of_rank(const struct cores *cores) {
    return cores->left.rows / cores->host_of.rows;
}

static int32_t host_of(const struct cores *cores, int64_t stream) {
    return cores->host_of.at[stream / streams_of_rank(cores)];
}

/* How fast rests pass: threads that wake on idle cores take long, and no time where none is idle. */
static double pace_of_rest(const struct cores *cores, int32_t host) {
    int64_t all = cores->cores.at[host], idle = all - cores->running.at[host];
    return idle > 0 ? (double)all / (double)idle : INFINITY;
}

/* Note what the streams of a host have done since its cores were last handed out. */
static void settle(struct cores *cores, int32_t host, double now) {
    double passed = now - cores->since.at[host], pace = pace_of_rest(cores, host);
    cores->since.at[host] = now;
    cores->changed.at[host] = true;
    if (!(passed > 0)) return;
    for (int64_t stream = 0; stream < cores->left.rows; stream++) {
        if (host_of(cores, stream) != host) continue;
        if (cores->state.at[stream] == RUNNING) {
            cores->left.at[stream] -= passed;
            cores->slice.at[stream] -= passed;
        } else if (cores->state.at[stream] == RESTING) {
            cores->left.at[stream] -= passed * pace;
        }
    }
}

static void begin(struct network *net, struct cores *cores, int64_t stream, double seconds,
                  int8_t state) {
    settle(cores, host_of(cores, stream), net->counts.at->now);
    net->events.at[2 * stream + 1].instant = NONE;
    cores->left.at[stream] = seconds;
    cores->state.at[stream] = state;
    cores->asked.at[stream] = net->counts.at->now;
}

/* Let a stream begin an op that needs a core for so many seconds, which are more than 0. */
void need_core(struct network *net, struct cores *cores, int64_t stream, double seconds) {
    begin(net, cores, stream, seconds, WAITING_FOR_CORE);
}

/* Let a stream begin one that lasts so many seconds if no core is busy, and needs none. */
void rest(struct network *net, struct cores *cores, int64_t stream, double seconds) {
    begin(net, cores, stream, seconds, RESTING);
}

/* Whether the op of a stream is done whose event has come; else it waits for its next turn. */
bool is_done(struct network *net, struct cores *cores, int64_t stream) {
    int32_t host = host_of(cores, stream);
    double now = net->counts.at->now;
    settle(cores, host, now);
    bool ran = cores->state.at[stream] == RUNNING;
    bool done = cores->left.at[stream] <= SAME * now + NOTHING;
    cores->running.at[host] -= ran;
    cores->state.at[stream] = done ? AWAY : ran ? WAITING_FOR_CORE : RESTING;
    cores->asked.at[stream] = now;
    return done;
}

/* The stream of a host that has waited longest for a core, NONE where none waits.
 *
 * Of those that asked at one instant the first in number: in which order they did so there follows
 * from nothing in the program.
 */
static int64_t next_of(const struct cores *cores, int64_t host) {
    int64_t next = NONE;
    for (int64_t stream = 0; stream < cores->left.rows; stream++)
        if (cores->state.at[stream] == WAITING_FOR_CORE && host_of(cores, stream) == host &&
            (next == NONE || cores->asked.at[stream] < cores->asked.at[next]))
            next = stream;
    return next;
}

/* Hand out the cores of hosts on which ops began or ended, and put into the agenda when they end.
 *
 * Once for all that did at one instant, when each has been taken off: one whose end was due at that
 * instant would else be put there a second time.
 */
void share_cores(struct network *net, struct cores *cores) {
    double now = net->counts.at->now;
    for (int64_t host = 0; host < cores->changed.rows; host++) {
        int64_t next;
        while (cores->changed.at[host] && cores->running.at[host] < cores->cores.at[host] &&
               (next = next_of(cores, host)) != NONE) {
            cores->state.at[next] = RUNNING;
            cores->slice.at[next] = SLICE;
            cores->running.at[host]++;
        }
    }
    for (int64_t stream = 0; stream < cores->left.rows; stream++) {
        int32_t host = host_of(cores, stream);
        int8_t state = cores->state.at[stream];
        if (!cores->changed.at[host] || (state != RUNNING && state != RESTING)) continue;
        double pace = state == RUNNING ? 1 : pace_of_rest(cores, host);
        if (isinf(pace)) cores->left.at[stream] = 0;
        double takes = cores->left.at[stream] / pace;
        if (state == RUNNING) takes = least(takes, cores->slice.at[stream]);
        drop(net, 2 * stream + 1);
        put(net, 2 * stream + 1, now + most(takes, 0));
    }
    for (int64_t host = 0; host < cores->changed.rows; host++) cores->changed.at[host] = false;
}
