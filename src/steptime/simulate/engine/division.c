/* Dividing each rank's step into phases, for very many ranks. */

#include "division.h"

#include <math.h>

enum { COMPUTING = 1, COMMUNICATING, UPDATING, WAITING };          /* of Phase in timeline.py */
enum { COMPUTED, TRANSFERRED, UPDATED, OTHER, EXPOSED, COLUMNS };  /* of totals */

/* Fill in when the ops of a rank started, in the first columns of starts. */
void fill_starts(const struct queues *queues, const struct times *ends, int64_t rank,
                 struct times *starts) {
    int64_t class = queues->class_of.at[rank], first_op = queues->ops_of.at[class];
    int64_t size = queues->ops_of.at[class + 1] - first_op, base = queues->rank_ops_of.at[rank];
    const int32_t *queue_of = queues->queue_of.at + class * queues->queue_of.width;
    for (int64_t stream = 0; stream < streams_of(queues); stream++) {
        double free = 0;
        for (int64_t step = 0; step < ends->steps; step++) {
            const double *end = ends->at + step * ends->width + base;
            for (int32_t at = queue_of[stream]; at < queue_of[stream + 1]; at++) {
                int32_t place = queues->queue.at[at];
                int64_t op = first_op + place;
                double start = free;
                int32_t after = queues->after_of.at[op], past = queues->after_of.at[op + 1];
                if (queues->code.at[op] == WAIT) past = after; /* it starts when its stream comes */
                for (; after < past; after++) {
                    int32_t other = queues->after.at[after];
                    if (other >= 0)
                        start = most(start, end[other]);
                    else if (step)
                        start = most(start, end[size + other - ends->width]);
                }
                starts->at[step * starts->width + place] = start;
                free = end[place];
            }
        }
    }
}

/* Fill in when the ops that communicate started, rank by rank, shape (steps, those of all). */
void fill_starts_of_calls(const struct queues *queues, const struct times *ends,
                          struct times *scratch, struct times *starts) {
    int64_t column = 0;
    for (int64_t rank = 0; rank < queues->class_of.rows; rank++) {
        const int32_t *ops_of = queues->ops_of.at + queues->class_of.at[rank];
        fill_starts(queues, ends, rank, scratch);
        for (int32_t op = ops_of[0]; op < ops_of[1]; op++) {
            if (queues->code.at[op] != COMMUNICATE) continue;
            for (int64_t step = 0; step < ends->steps; step++)
                starts->at[step * starts->width + column] =
                    scratch->at[step * scratch->width + op - ops_of[0]];
            column++;
        }
    }
}

/* All that the division of a rank's step works on. */
struct division {
    const struct queues *queues;
    const uint8_t *phase;
    const struct times *ready, *ends, *starts;
    struct here *here;
    int64_t class, base;
};

/* Go on to the op of a stream that ends after now; past the last, to one that never begins. */
static void go_on(const struct division *of, int64_t stream, double now) {
    const struct queues *queues = of->queues;
    const int32_t *own = queues->queue_of.at + of->class * queues->queue_of.width + stream;
    struct here *here = of->here;
    while (here->until.at[stream] <= now) {
        int64_t at = ++here->at.at[stream];
        if (own[0] + at == own[1]) {
            here->step.at[stream]++;
            here->at.at[stream] = at = 0;
        }
        int64_t step = here->step.at[stream];
        if (step >= of->starts->steps || own[0] == own[1]) {
            here->since.at[stream] = here->until.at[stream] = INFINITY;
            return;
        }
        int64_t place = queues->queue.at[own[0] + at];
        double since = of->starts->at[step * of->starts->width + place];
        here->since.at[stream] = since;
        here->until.at[stream] = of->ends->at[step * of->ends->width + of->base + place];
        here->moves.at[stream] =
            most(since, of->ready->at[step * of->ready->width + of->base + place]);
        here->does.at[stream] = of->phase[queues->ops_of.at[of->class] + place];
    }
}

/* The column that an instant counts in, by the phases that streams are in, a bit for each; moving:
 * whether one of them has bytes on their way. */
static int counted_as(unsigned phases, bool moving) {
    bool waiting = phases & 1u << WAITING;
    if (phases & 1u << COMPUTING && !waiting) return COMPUTED;
    if (phases & 1u << UPDATING && !waiting) return UPDATED;
    if (moving) return TRANSFERRED;
    return waiting || phases & 1u << COMMUNICATING ? EXPOSED : OTHER;
}

/* Add up totals of a rank, going over the intervals of all its streams side by side. */
static void divide_rank(const struct division *of, double now, double last, double *totals) {
    const struct here *here = of->here;
    for (int64_t stream = 0; stream < here->step.rows; stream++) {
        here->step.at[stream] = 0;
        here->at.at[stream] = -1;
        here->until.at[stream] = -INFINITY;
    }
    while (now < last) {
        double following = last;
        unsigned phases = 0;
        bool moving = false;
        for (int64_t stream = 0; stream < here->step.rows; stream++) {
            go_on(of, stream, now);
            if (here->since.at[stream] > now) {
                following = least(following, here->since.at[stream]);
                continue;
            }
            bool moved = here->moves.at[stream] <= now;
            following = least(following, moved ? here->until.at[stream] : here->moves.at[stream]);
            moving |= moved && here->does.at[stream] == COMMUNICATING;
            phases |= 1u << here->does.at[stream];
        }
        totals[counted_as(phases, moving)] += following - now;
        now = following;
    }
}

/* Add up totals, shape (ranks, COLUMNS), between begin and finish of each rank. */
void divide(const struct queues *queues, const uint8_t *phase, const struct times *ready,
            const struct times *ends, const double *begin, const double *finish, int64_t ranks,
            struct here *here, struct times *starts, double *totals) {
    for (int64_t rank = 0; rank < ranks; rank++) {
        fill_starts(queues, ends, rank, starts);
        struct division of = {
            .queues = queues,
            .phase = phase,
            .ready = ready,
            .ends = ends,
            .starts = starts,
            .here = here,
            .class = queues->class_of.at[rank],
            .base = queues->rank_ops_of.at[rank],
        };
        divide_rank(&of, begin[rank], finish[rank], totals + rank * COLUMNS);
    }
}
