/* Engine: moves messages over links, from one event to the next. */

#include "network.h"

#include <math.h>

/* Record that a lone message, or a rank's part of a collective, is done. */
static void finish(struct network *net, int64_t token, int64_t rank) {
    struct counts *counts = net->counts.at;
    net->ended.at[counts->ended++] = (struct ended){token, rank, counts->now};
}

/* Let a part enter its next round: messages whose other end has entered it too begin. */
static void proceed(struct network *net, int64_t number) {
    struct part *part = net->parts.at + number;
    struct counts *counts = net->counts.at;
    int32_t end = part->at;
    if (end == NONE) {
        struct owner *owner = net->owners.at + part->owner;
        if (owner->exhausted) {
            owner->unfinished--;
            finish(net, owner->token, number - owner->base);
        } else {
            counts->without_rounds = part->owner;
            put(net, 2 * number + 1, counts->now);
        }
        return;
    }
    int32_t now_in = net->flows.at[end >> 1].round, pending = 0;
    while (end != NONE) {
        struct flow *flow = net->flows.at + (end >> 1);
        if (flow->round != now_in) break;
        pending++;
        if (!--flow->missing) {
            flow->sent = counts->now;
            flow->state = LATENT;
            put(net, 2 * (end >> 1), counts->now + flow->latency);
        }
        end = flow->following[end & 1];
    }
    part->at = end;
    part->pending = pending;
}

/* Keep a row of a message that has just arrived. */
static void keep(struct network *net, const struct flow *flow) {
    struct counts *counts = net->counts.at;
    struct kept row = {
        .src = flow->device[0],
        .dst = flow->device[1],
        .sent = flow->sent,
        .received = counts->now,
        .bytes = (int64_t)flow->nbytes,
        .token = flow->token,
        .src_device = flow->device[0],
        .dst_device = flow->device[1],
        .round = flow->round,
    };
    if (flow->token == NONE) {
        const struct owner *owner = net->owners.at + net->parts.at[flow->part[0]].owner;
        row.token = owner->token;
        row.src = flow->part[0] - owner->base;
        row.dst = flow->part[1] - owner->base;
    }
    net->logged.at[counts->logged++] = row;
}

/* Handle the arrival of a message's last byte. */
static void arrive(struct network *net, int64_t number) {
    struct flow *flow = net->flows.at + number;
    struct counts *counts = net->counts.at;
    const int32_t *path = path_of(net, number);
    double since = counts->now;
    if (flow->state == FLOWING) {
        since = flow->since;
        leave(net, number);
    }
    record(net, path, flow->hops, flow->left, since, counts->now);
    for (int64_t hop = 0; hop < flow->hops; hop++) net->links.at[path[hop]].nbytes += flow->nbytes;
    bool lone = flow->token != NONE;
    counts->messages += lone || flow->part[0] != flow->part[1];
    if (counts->keep) keep(net, flow);
    flow->state = WAITING;
    net->spare_flows.at[counts->spare_flows++] = (int32_t)number;
    if (lone) {
        finish(net, flow->token, NONE);
        return;
    }
    net->parts.at[flow->part[1]].busy += flow->reduce;
    for (int side = flow->released; side < 2; side++) {
        int64_t of = flow->part[side];
        struct part *part = net->parts.at + of;
        if (--part->pending) continue;
        if (part->busy > 0) {
            put(net, 2 * of + 1, counts->now + part->busy);
            part->busy = 0;
        } else {
            proceed(net, of);
        }
    }
}

/* Let the sender of a message be done with it: its socket has taken what is left. */
static void release(struct network *net, struct flow *flow) {
    struct part *part = net->parts.at + flow->part[0];
    flow->released = 1;
    if (--part->pending) return;
    put(net, 2 * (int64_t)flow->part[0] + 1, net->counts.at->now + part->busy);
    part->busy = 0;
}

/* Handle one event. */
static void happen(struct network *net, int64_t event) {
    int64_t number = event >> 1;
    if (event & 1) {
        proceed(net, number);
        return;
    }
    struct flow *flow = net->flows.at + number;
    double now = net->counts.at->now;
    if (flow->state == LATENT && flow->left > 0 && join(net, number)) {
        flow->state = FLOWING;
        flow->rate = 0;
        flow->since = now;
        if (flow->left <= flow->held) release(net, flow);
    } else if (flow->state == FLOWING && flow->held > 0 && !flow->released) {
        record(net, path_of(net, number), flow->hops, flow->left - flow->held, flow->since, now);
        flow->left = flow->held;
        flow->since = now;
        put(net, 2 * number, now + flow->left / flow->rate);
        release(net, flow);
    } else {
        arrive(net, number);
    }
}

/* Schedule when a part enters its first round. */
void enter(struct network *net, int64_t part, double at) {
    net->events.at[2 * part + 1].instant = NONE;
    put(net, 2 * part + 1, at);
}

/* Let parts enter their first rounds, each at its time, and run_events. */
int run(struct network *net, const int32_t *parts, const double *at, int64_t size, double until,
        bool stop) {
    for (int64_t place = 0; place < size; place++) enter(net, parts[place], at[place]);
    return run_events(net, until, stop);
}

/* Whether all events of this instant are over. */
static bool over(const struct network *net) {
    const struct counts *counts = net->counts.at;
    return !counts->heap || net->keys.at[0] > counts->now * (1 + SAME);
}

/* Handle events until one of these reasons, which is returned.
 *
 * DONE: with stop, something was done at the instant that is over. ROUNDS: the chains of the owner
 * without_rounds need more messages. ROOM: the log may not have room for the next instant. QUIET: no
 * event is left up to a time.
 */
int run_events(struct network *net, double until, bool stop) {
    struct counts *counts = net->counts.at;
    counts->without_rounds = NONE;
    while (true) {
        if (counts->changed && over(net)) share(net);
        if (counts->keep && net->logged.rows - counts->logged < net->flows.rows) return ROOM;
        if (over(net)) {
            if (stop && counts->ended) return DONE;
            if (!counts->heap || net->keys.at[0] > until) {
                if (until < INFINITY) move_to(net, until);
                return QUIET;
            }
            move_to(net, net->keys.at[0]);
        }
        int32_t instant = net->heap.at[0], event = net->instants.at[instant].first;
        forget(net, instant);
        while (event != NONE) {
            int32_t following = net->events.at[event].following;
            net->events.at[event].instant = NONE;
            happen(net, event);
            event = following;
        }
        if (counts->without_rounds != NONE) return ROUNDS;
    }
}

/* Put a message into a spare slot without starting it; returns its number. */
static int32_t take(struct network *net, const struct moves *moves, int64_t row) {
    const struct move *move = moves->rows.at + row;
    const int32_t *path = moves->paths.at + row * moves->paths.width;
    int32_t number = net->spare_flows.at[--net->counts.at->spare_flows];
    struct flow *flow = net->flows.at + number;
    flow->token = NONE;
    flow->nbytes = flow->left = move->nbytes;
    flow->rate = 0;
    flow->latency = move->latency;
    flow->reduce = move->reduce;
    flow->seen = 0;
    flow->held = move->held;
    flow->weight = move->weight;
    flow->released = 0;
    flow->state = WAITING;
    flow->round = move->round;
    flow->device[0] = move->device[0];
    flow->device[1] = move->device[1];
    int16_t hops = 0;
    for (; hops < moves->paths.width && path[hops] != NONE; hops++)
        path_of(net, number)[hops] = path[hops];
    flow->hops = hops;
    net->events.at[2 * (int64_t)number].instant = NONE;
    return number;
}

/* Schedule a lone message. */
void send_alone(struct network *net, int64_t token, double start, const struct moves *moves,
                int64_t row) {
    int32_t number = take(net, moves, row);
    struct flow *flow = net->flows.at + number;
    flow->token = token;
    flow->sent = start;
    flow->state = LATENT;
    put(net, 2 * (int64_t)number, start + flow->latency);
}

/* Schedule lone messages, each at its time. */
void dispatch(struct network *net, const int64_t *tokens, const double *start, int64_t size,
              const struct moves *moves) {
    for (int64_t row = 0; row < size; row++) send_alone(net, tokens[row], start[row], moves, row);
}

/* Append messages of a collective, in order of rounds, to the chains of its parts.
 *
 * Those from the first to before past. Base: the part of rank 0.
 */
void append(struct network *net, int64_t base, const struct moves *moves, int64_t first,
            int64_t past) {
    for (int64_t row = first; row < past; row++) {
        int32_t number = take(net, moves, row);
        struct flow *flow = net->flows.at + number;
        flow->missing = 2;
        for (int side = 0; side < 2; side++) {
            int32_t end = 2 * number + side;
            flow->part[side] = (int32_t)base + moves->rows.at[row].rank[side];
            flow->following[side] = NONE;
            struct part *part = net->parts.at + flow->part[side];
            if (part->at == NONE)
                part->at = end;
            else
                net->flows.at[part->tail >> 1].following[part->tail & 1] = end;
            part->tail = end;
        }
    }
}

/* Add to the series what the flows in progress have carried so far. */
void tally(struct network *net) {
    double now = net->counts.at->now;
    for (int64_t number = 0; number < net->flows.rows; number++) {
        struct flow *flow = net->flows.at + number;
        if (flow->state != FLOWING || !(flow->rate > 0) || !(now > flow->since)) continue;
        double carried = least(flow->rate * (now - flow->since), flow->left);
        record(net, path_of(net, number), flow->hops, carried, flow->since, now);
        flow->left -= carried;
        flow->since = now;
    }
}
