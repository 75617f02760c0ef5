/* The state of a network: state.py says what each table and each field holds. */

#ifndef STEPTIME_NETWORK_H
#define STEPTIME_NETWORK_H

#include "tables.h"

#define SAME 1e-12
enum { BINS = 256, INSTANTS = 4096, NODE = 16 };
enum { WAITING, LATENT, FLOWING };                /* states of a flow */
enum { QUIET, DONE, ROUNDS, ROOM, UNREAD, FULL }; /* why run_events and run_streams return */

struct flow {
    int64_t token;
    double nbytes, left, rate, since, latency, sent, reduce, held, weight;
    int32_t part[2], device[2], following[2], round, seen;
    int16_t hops;
    int8_t missing, released, state;
};

struct move {
    double nbytes, latency, reduce, held, weight;
    int32_t rank[2], device[2], round;
};

struct link {
    double bandwidth, nbytes, room, weight, unfixed;
    int32_t flows;
    int64_t first;
    int32_t seen, row;
    bool changed;
};

struct part {
    double busy;
    int32_t at, tail, pending, owner, stream;
};

struct owner {
    int64_t token;
    int32_t base, unfinished;
    bool exhausted;
    int32_t task, untold, following;
};

struct event {
    int32_t following, before, instant;
};

struct instant {
    double time;
    int32_t first, place;
};

struct kept {
    int32_t src, dst;
    double sent, received;
    int64_t bytes, token;
    int32_t src_device, dst_device, round;
};

struct ended {
    int64_t token, rank;
    double at;
};

struct counts {
    double now, width, bins;
    int64_t messages, spare_flows, spare_instants, heap, changed, ended, logged, rows, without_rounds,
        owners, parts, wanted;
    int32_t turn;
    bool keep, lasting;
};

#define NETWORK(X)                                                                             \
    X(struct counts, counts)                                                                   \
    X(struct link, links)                                                                      \
    X(struct flow, flows)                                                                      \
    X(int32_t, spare_flows)                                                                    \
    X(int32_t, paths)                                                                          \
    X(int64_t, following)                                                                      \
    X(int64_t, before)                                                                         \
    X(struct part, parts)                                                                      \
    X(struct owner, owners)                                                                    \
    X(struct event, events)                                                                    \
    X(struct instant, instants)                                                                \
    X(int32_t, spare_instants)                                                                 \
    X(int32_t, recent)                                                                         \
    X(int32_t, heap)                                                                           \
    X(double, keys)                                                                            \
    X(int32_t, changed)                                                                        \
    X(int32_t, found)                                                                          \
    X(double, shares)                                                                          \
    X(struct ended, ended)                                                                     \
    X(struct kept, logged)                                                                     \
    X(double, series)                                                                          \
    X(double, steps)

struct network {
    NETWORK(TABLE)
};

#define MOVES(X)          \
    X(struct move, rows)  \
    X(int32_t, paths)

struct moves {
    MOVES(TABLE)
};

/* The links on the path of a flow. */
static inline int32_t *path_of(struct network *net, int64_t flow) {
    return net->paths.at + flow * net->paths.width;
}

/* agenda.c */
void put(struct network *net, int64_t event, double time);
void drop(struct network *net, int64_t event);
void forget(struct network *net, int64_t instant);
int64_t smaller_below(const double *keys, int64_t place, int64_t size, double key);

/* max_min.c */
bool join(struct network *net, int64_t flow);
void leave(struct network *net, int64_t flow);
void share(struct network *net);

/* series.c */
void give_rows(struct network *net, const int32_t *paths, int64_t size);
void move_to(struct network *net, double time);
void widen(struct network *net, double time);
void record(struct network *net, const int32_t *path, int64_t hops, double nbytes, double since,
            double until);

/* engine.c */
void enter(struct network *net, int64_t part, double at);
int run_events(struct network *net, double until, bool stop);
void send_alone(struct network *net, int64_t token, double start, const struct moves *moves,
                int64_t row);
int run(struct network *net, const int32_t *parts, const double *at, int64_t size, double until,
        bool stop);
void dispatch(struct network *net, const int64_t *tokens, const double *start, int64_t size,
              const struct moves *moves);
void append(struct network *net, int64_t base, const struct moves *moves, int64_t first,
            int64_t past);
void tally(struct network *net);

#endif
