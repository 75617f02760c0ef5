/* The streams of all ranks at fidelity message: their ops start and end as messages arrive.
 *
 * A stream here has one number among those of all ranks: that of its rank times the streams of a
 * rank, plus its own. An instance is that of Matching; a task is what its ranks have the network do:
 * messages of a collective, or one alone.
 */

#include "streams.h"

#include <math.h>

#define GOES_ON (-1)
#define COMPUTING 0 /* the owner of the parts that stand for streams which compute */

/* All that a run works on. */
struct run {
    struct network *net;
    const struct queues *queues;
    const struct parts *parts;
    struct tasks *tasks;
    const struct moves *moves;
    struct streams *streams;
    struct cores *cores;
    struct times *ends;
};

/* List a stream among those to look at, unless it is there. */
static void look_at(struct streams *streams, int64_t stream) {
    if (streams->listed.at[stream]) return;
    streams->listed.at[stream] = true;
    streams->todo.at[streams->counts.at[0]++] = stream;
}

/* Whether all ops that an op of a rank comes after have ended: of this step or the last. */
static bool ready(const struct run *run, int64_t rank, int64_t step, int64_t op) {
    const struct queues *queues = run->queues;
    const int64_t *rank_ops_of = queues->rank_ops_of.at + rank;
    const double *ends = run->ends->at + step * run->ends->width;
    for (int32_t place = queues->after_of.at[op]; place < queues->after_of.at[op + 1]; place++) {
        int32_t other = queues->after.at[place];
        if (other >= 0) {
            if (isnan(ends[rank_ops_of[0] + other])) return false;
        } else if (step && isnan(ends[rank_ops_of[1] + other - run->ends->width])) {
            return false;
        }
    }
    return true;
}

/* End the op that a stream runs, and look at it again, and at those with an op after it. */
static void end(const struct run *run, int64_t stream, double now) {
    const struct queues *queues = run->queues;
    struct queue queue = queue_of(queues, stream);
    int64_t *done = run->streams->done.at + stream;
    int64_t step = *done / queue.length, at = *done % queue.length;
    int32_t place = queues->queue.at[queue.first + at];
    run->ends->at[step * run->ends->width + queues->rank_ops_of.at[queue.rank] + place] = now;
    ++*done;
    run->streams->busy.at[stream] = false;
    look_at(run->streams, stream);
    int64_t op = queues->ops_of.at[queue.class] + place;
    for (int32_t number = queues->wakes_of.at[op]; number < queues->wakes_of.at[op + 1]; number++)
        look_at(run->streams, queue.rank * streams_of(queues) + queues->wakes.at[number]);
}

/* An owner for a task, with parts for its members; NONE where there is no room for one. */
static int64_t owner_for(const struct run *run, int32_t number) {
    struct network *net = run->net;
    struct counts *counts = net->counts.at;
    struct task *task = run->tasks->every.at + number;
    int64_t found = task->spare;
    if (found != NONE) {
        task->spare = net->owners.at[found].following;
    } else if (counts->owners == net->owners.rows ||
               counts->parts + task->members > net->parts.rows) {
        return NONE;
    } else {
        found = counts->owners++;
        net->owners.at[found].base = (int32_t)counts->parts;
        counts->parts += task->members;
    }
    struct owner *owner = net->owners.at + found;
    owner->token = found;
    owner->task = number;
    owner->exhausted = task->whole;
    owner->unfinished = owner->untold = task->members;
    for (int32_t part = owner->base; part < owner->base + task->members; part++) {
        struct part *here = net->parts.at + part;
        here->busy = 0;
        here->at = here->tail = NONE;
        here->pending = 0;
        here->owner = (int32_t)found;
    }
    return found;
}

/* Let a stream reach an end of a message: the second that comes sends it. */
static int reach_message(const struct run *run, int64_t *begun, int32_t number, int64_t stream) {
    struct counts *counts = run->net->counts.at;
    if (*begun == NONE) {
        *begun = stream;
        return GOES_ON;
    }
    if (!counts->spare_flows) {
        counts->wanted = number;
        return FULL;
    }
    int64_t token = *begun * run->streams->done.rows + stream;
    send_alone(run->net, token, counts->now, run->moves, run->tasks->every.at[number].first);
    return GOES_ON;
}

/* Let a stream reach its part of an instance, and wait there: GOES_ON; else why it cannot. */
static int reach(const struct run *run, int64_t step, int64_t part, int64_t stream) {
    struct network *net = run->net;
    struct counts *counts = net->counts.at;
    int32_t instance = run->parts->instance.at[part], number = run->tasks->of.at[instance];
    const struct task *task = run->tasks->every.at + number;
    int64_t *begun = run->streams->begun.at + step * run->streams->begun.width + instance;
    if (!task->members) return reach_message(run, begun, number, stream);
    if (*begun == NONE) {
        counts->wanted = number;
        if (task->first == NONE) return UNREAD;
        if (counts->spare_flows < task->size) return FULL;
        int64_t owner = owner_for(run, number);
        if (owner == NONE) return FULL;
        *begun = owner;
        int32_t base = net->owners.at[owner].base;
        append(net, base, run->moves, task->first, task->first + task->size);
    }
    int64_t own = net->owners.at[*begun].base + run->parts->place.at[part];
    net->parts.at[own].stream = (int32_t)stream;
    enter(net, own, counts->now);
    return GOES_ON;
}

/* Start the next op of a stream, if it can start: GOES_ON; else why Python must help first. */
static int start(const struct run *run, int64_t stream) {
    const struct queues *queues = run->queues;
    double now = run->net->counts.at->now, until = now;
    struct queue queue = queue_of(queues, stream);
    int64_t done = run->streams->done.at[stream];
    bool *busy = run->streams->busy.at + stream;
    if (*busy || done == queue.length * run->ends->steps) return GOES_ON;
    int64_t step = done / queue.length, at = done % queue.length;
    int64_t op = queues->ops_of.at[queue.class] + queues->queue.at[queue.first + at];
    if (!ready(run, queue.rank, step, op)) return GOES_ON;
    if (queues->code.at[op] == COMMUNICATE) {
        int64_t part = run->parts->parts_of.at[queue.rank] + queues->part.at[op];
        if (run->tasks->of.at[run->parts->instance.at[part]] != NONE) {
            int reason = reach(run, step, part, stream);
            *busy = reason == GOES_ON;
            return reason;
        }
    } else {
        until = now + queues->seconds.at[op] / queues->speed.at[queue.rank];
    }
    if (until > now) {
        *busy = true;
        if (!shared(run->cores))
            enter(run->net, stream, until);
        else if (queues->code.at[op] == COMPUTE)
            need_core(run->net, run->cores, stream, until - now);
        else
            rest(run->net, run->cores, stream, until - now);
    } else {
        end(run, stream, now);
    }
    return GOES_ON;
}

/* End the ops of all streams for which the network has finished something. */
static void end_all(const struct run *run) {
    struct network *net = run->net;
    struct counts *counts = net->counts.at;
    for (int64_t number = 0; number < counts->ended; number++) {
        const struct ended *row = net->ended.at + number;
        if (row->rank == NONE) { /* a lone message, whose token tells both streams */
            int64_t total = run->streams->done.rows;
            end(run, row->token / total, counts->now);
            end(run, row->token % total, counts->now);
            continue;
        }
        struct owner *owner = net->owners.at + row->token;
        if (row->token == COMPUTING && shared(run->cores) && !is_done(net, run->cores, row->rank))
            continue;
        end(run, net->parts.at[owner->base + row->rank].stream, counts->now);
        if (row->token == COMPUTING) continue;
        if (!--owner->untold) {
            struct task *task = run->tasks->every.at + owner->task;
            owner->following = task->spare;
            task->spare = (int32_t)row->token;
        }
    }
    counts->ended = 0;
}

/* Run all steps, until no event is left; fill in when each rank op ends.
 *
 * Those times are NaN at first. Returns why it stopped: a reason of run_events; UNREAD: the moves of
 * the task wanted have not been read; FULL: there is no room for them, or for its members. What had
 * to be done before is done when it is called again.
 */
int run_streams(struct network *net, const struct queues *queues, const struct parts *parts,
                struct tasks *tasks, const struct moves *moves, struct streams *streams,
                struct cores *cores, struct times *ends) {
    const struct run run = {net, queues, parts, tasks, moves, streams, cores, ends};
    while (true) {
        while (streams->counts.at[0]) {
            int64_t stream = streams->todo.at[--streams->counts.at[0]];
            streams->listed.at[stream] = false;
            int reason = start(&run, stream);
            if (reason != GOES_ON) {
                look_at(streams, stream);
                return reason;
            }
        }
        if (shared(cores)) share_cores(net, cores);
        int reason = run_events(net, INFINITY, true);
        if (reason != DONE) return reason;
        end_all(&run);
    }
}
