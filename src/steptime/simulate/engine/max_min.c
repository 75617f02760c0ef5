/* Sharing the links: max-min fair rates, recomputed where the flows on a link have changed. */

#include "network.h"

#include <math.h>

enum { LOW = (1 << NODE) - 1 };

/* Of the list of flows on a link: the node after this one, and the one before it. */
static int64_t *following(struct network *net, int64_t node) {
    return net->following.at + (node >> NODE) * net->following.width + (node & LOW);
}

static int64_t *before(struct network *net, int64_t node) {
    return net->before.at + (node >> NODE) * net->before.width + (node & LOW);
}

/* Note that the flows on a link have changed. */
static void change(struct network *net, int32_t number) {
    struct link *link = net->links.at + number;
    if (link->changed) return;
    link->changed = true;
    net->changed.at[net->counts.at->changed++] = number;
}

/* Put a flow on the links of its path; returns whether any of them can limit its rate. */
bool join(struct network *net, int64_t number) {
    const struct flow *flow = net->flows.at + number;
    const int32_t *path = path_of(net, number);
    bool limited = false;
    for (int64_t hop = 0; hop < flow->hops; hop++) {
        struct link *link = net->links.at + path[hop];
        if (!(link->bandwidth < INFINITY)) continue;
        limited = true;
        int64_t node = number << NODE | hop;
        *following(net, node) = link->first;
        *before(net, node) = NONE;
        if (link->first != NONE) *before(net, link->first) = node;
        link->first = node;
        link->flows++;
        link->weight += flow->weight;
        change(net, path[hop]);
    }
    return limited;
}

/* Take a flow off the links of its path. */
void leave(struct network *net, int64_t number) {
    const struct flow *flow = net->flows.at + number;
    const int32_t *path = path_of(net, number);
    for (int64_t hop = 0; hop < flow->hops; hop++) {
        struct link *link = net->links.at + path[hop];
        if (!(link->bandwidth < INFINITY)) continue;
        int64_t node = number << NODE | hop, next = *following(net, node), last = *before(net, node);
        if (next != NONE) *before(net, next) = last;
        if (last != NONE)
            *following(net, last) = next;
        else
            link->first = next;
        link->flows--;
        link->weight -= flow->weight;
        if (link->flows) change(net, path[hop]);
    }
}

/* Set a flow's rate from now on.
 *
 * Rates are lazy: nothing is done to a flow between two changes of its rate. That is right because
 * its bytes fall evenly in between, so that left as of since and the rate tell what is left at any
 * time, and the arrival that is put into the agenda here stays true until the next change drops it.
 */
static void set_rate(struct network *net, int64_t number, double rate) {
    struct flow *flow = net->flows.at + number;
    double now = net->counts.at->now;
    if (fabs(rate - flow->rate) <= 1e-14 * rate) return;
    if (flow->rate > 0) {
        double carried = least(flow->rate * (now - flow->since), flow->left);
        record(net, path_of(net, number), flow->hops, carried, flow->since, now);
        flow->left -= carried;
    }
    flow->since = now;
    flow->rate = rate;
    drop(net, 2 * number);
    double ahead = flow->released ? flow->left : flow->left - flow->held;
    put(net, 2 * number, now + most(ahead, 0) / rate);
}

/* The rate of a flow that shares none of its links, else 0. */
static double alone(struct network *net, int64_t number) {
    const int32_t *path = path_of(net, number);
    double rate = INFINITY;
    for (int64_t hop = 0; hop < net->flows.at[number].hops; hop++) {
        const struct link *link = net->links.at + path[hop];
        if (link->flows > 1 && link->bandwidth < INFINITY) return 0;
        rate = least(rate, link->bandwidth);
    }
    return rate;
}

/* Put all links that flows connect with a link into found; returns how many. */
static int64_t component(struct network *net, int32_t link, int32_t turn) {
    int64_t size = 1;
    net->found.at[0] = link;
    net->links.at[link].seen = turn;
    for (int64_t done = 0; done < size; done++) {
        struct link *here = net->links.at + net->found.at[done];
        here->room = here->bandwidth;
        here->unfixed = here->weight;
        net->shares.at[done] = here->bandwidth / here->weight;
        for (int64_t node = here->first; node != NONE; node = *following(net, node)) {
            struct flow *flow = net->flows.at + (node >> NODE);
            const int32_t *path = path_of(net, node >> NODE);
            if (flow->seen == turn) continue;
            flow->seen = turn;
            for (int64_t other = 0; other < flow->hops; other++) {
                struct link *there = net->links.at + path[other];
                if (there->seen == turn || !(there->bandwidth < INFINITY)) continue;
                there->seen = turn;
                net->found.at[size++] = path[other];
            }
        }
    }
    return size;
}

/* Move a link down the heap of shares until none below it has a smaller one. */
static void settle(struct network *net, int64_t place, int64_t size) {
    int32_t *links = net->found.at, link = links[place];
    double *shares = net->shares.at, key = shares[place];
    int64_t below;
    while ((below = smaller_below(shares, place, size, key)) != NONE) {
        links[place] = links[below];
        shares[place] = shares[below];
        place = below;
    }
    links[place] = link;
    shares[place] = key;
}

/* Give all flows of a link that have no rate yet this share, each times its weight. */
static void fix(struct network *net, int64_t node, double share) {
    int32_t turn = net->counts.at->turn;
    for (; node != NONE; node = *following(net, node)) {
        int64_t number = node >> NODE;
        struct flow *flow = net->flows.at + number;
        const int32_t *path = path_of(net, number);
        if (flow->seen != turn) continue;
        flow->seen = -turn;
        for (int64_t other = 0; other < flow->hops; other++) {
            struct link *there = net->links.at + path[other];
            there->room -= share * flow->weight;
            there->unfixed -= flow->weight;
        }
        set_rate(net, number, share * flow->weight);
    }
}

/* Share the links of a component fairly (progressive filling; Bertsekas and Gallager, 6.5).
 *
 * The link that can give its flows the least fixes their rates; then the next, with what those have
 * left.
 *
 * Why no rate must be taken back: none of the link's flows can have more than its share, and each can
 * have that much, since no other link has a smaller one. What they take of another link, of room R
 * and n flows, is a share s <= R / n, and leaves (R - s) / (n - 1) >= R / n: shares only rise. So a
 * key in the heap that is out of date is too small, never too large. A link that comes to the top is
 * asked again, and is the least only if its share is still the key.
 *
 * A flow of weight w counts as w flows in this. Weights are whole multiples of 2^-10, so that their
 * sums are exact, and that of the flows without a rate is 0 when none is left.
 */
static void fill(struct network *net, int64_t size) {
    int32_t *links = net->found.at;
    double *shares = net->shares.at;
    for (int64_t place = size / 2 - 1; place >= 0; place--) settle(net, place, size);
    while (size) {
        const struct link *link = net->links.at + links[0];
        if (link->unfixed) {
            double share = most(link->room, 0) / link->unfixed;
            if (share > shares[0]) {
                shares[0] = share;
                settle(net, 0, size);
                continue;
            }
            fix(net, link->first, share);
        }
        size--;
        links[0] = links[size];
        shares[0] = shares[size];
        settle(net, 0, size);
    }
}

/* Recompute the rates of all flows that the links that have changed can reach.
 *
 * A flow's fair rate depends on the flows it shares a link with, on those that these share one with,
 * and so on: on its component, and on nothing else. All other flows keep their rates.
 */
void share(struct network *net) {
    struct counts *counts = net->counts.at;
    counts->turn++;
    for (int64_t place = 0; place < counts->changed; place++) {
        int32_t number = net->changed.at[place];
        struct link *link = net->links.at + number;
        link->changed = false;
        if (!link->flows || link->seen == counts->turn) continue;
        int64_t flow = link->first >> NODE;
        double rate = link->flows == 1 ? alone(net, flow) : 0;
        if (rate)
            set_rate(net, flow, rate);
        else
            fill(net, component(net, number, counts->turn));
    }
    counts->changed = 0;
}
