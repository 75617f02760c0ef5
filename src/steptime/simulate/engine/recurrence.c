/* The times of all ops of every rank where each call takes a known time, by one recurrence. */

#include "recurrence.h"

#include <math.h>

/* All that a run works on; top: how many streams are on the stack. */
struct run {
    const struct queues *queues;
    const struct prices *prices;
    struct calls *calls;
    struct todo *todo;
    struct step step;
    int64_t top;
};

/* The instance that a rank's op is a part of, NONE where it does not communicate. */
static int64_t instance_of(const struct run *run, int64_t rank, int64_t op) {
    const struct prices *prices = run->prices;
    if (run->queues->code.at[op] != COMMUNICATE) return NONE;
    return prices->instance.at[prices->parts_of.at[rank] + run->queues->part.at[op]];
}

/* Push a stream onto the stack of those to look at, unless it is there. */
static void push(struct run *run, int64_t stream) {
    if (run->todo->listed.at[stream]) return;
    run->todo->listed.at[stream] = true;
    run->todo->stack.at[run->top++] = stream;
}

/* Let a stream reach an instance, and wait there if others are missing; the last ends it for all. */
static void reach(struct run *run, int64_t instance, int64_t stream, double time) {
    struct calls *calls = run->calls;
    double *finish = calls->finish.at + instance;
    *finish = most(*finish, time);
    if (--calls->missing.at[instance]) {
        calls->following.at[stream] = calls->waiting.at[instance];
        calls->waiting.at[instance] = stream;
        return;
    }
    *finish += run->prices->seconds.at[instance];
    for (int64_t other = calls->waiting.at[instance]; other != NONE; other = calls->following.at[other])
        push(run, other);
}

/* When an op of a rank can start on a stream that is free from then on.
 *
 * That is when all ops that it comes after have ended, in the step before or in this one; NaN if one
 * has not yet.
 */
static double startable(const struct run *run, int64_t rank, int64_t op, double free) {
    const struct queues *queues = run->queues;
    const int64_t *rank_ops_of = queues->rank_ops_of.at + rank;
    double start = free;
    for (int32_t place = queues->after_of.at[op]; place < queues->after_of.at[op + 1]; place++) {
        int32_t other = queues->after.at[place];
        double ready = other < 0 ? run->step.before[rank_ops_of[1] + other]
                                 : run->step.ends[rank_ops_of[0] + other];
        if (isnan(ready)) return NAN;
        start = most(start, ready);
    }
    return start;
}

/* Take a stream as far as it can go. */
static void go_on(struct run *run, int64_t stream) {
    const struct queues *queues = run->queues;
    struct queue queue = queue_of(queues, stream);
    int64_t of_class = queues->ops_of.at[queue.class], *done = run->step.done + stream;
    double *free = run->step.free + stream;
    bool *arrived = run->todo->arrived.at + stream;
    while (*done < queue.length) {
        int32_t place = queues->queue.at[queue.first + *done];
        int64_t op = of_class + place, instance = instance_of(run, queue.rank, op);
        double end = 0;
        if (!*arrived) {
            double start = startable(run, queue.rank, op, *free);
            if (isnan(start)) return;
            end = start + queues->seconds.at[op] / queues->speed.at[queue.rank];
            if (instance != NONE) {
                *arrived = true;
                reach(run, instance, stream, end);
            }
        }
        if (instance != NONE) {
            if (run->calls->missing.at[instance]) return;
            *arrived = false;
            end = run->calls->finish.at[instance];
        }
        run->step.ends[queues->rank_ops_of.at[queue.rank] + place] = *free = end;
        ++*done;
        for (int32_t wake = queues->wakes_of.at[op]; wake < queues->wakes_of.at[op + 1]; wake++)
            push(run, queue.rank * streams_of(queues) + queues->wakes.at[wake]);
    }
}

/* Take every stream as far as it can go.
 *
 * An instance of a call starts when all its members have reached it and ends, for all, its seconds
 * later. So each time is a maximum of others plus a duration, and the order in which streams are
 * looked at does not matter: one goes on as far as it can, and is looked at again when the instance
 * it waits in has ended, or an op that it comes after.
 */
void run_step(const struct queues *queues, const struct prices *prices, struct calls *calls,
              struct todo *todo, struct step step) {
    struct run run = {queues, prices, calls, todo, step, todo->stack.rows};
    while (run.top) {
        int64_t stream = todo->stack.at[--run.top];
        todo->listed.at[stream] = false;
        go_on(&run, stream);
    }
}
