/* What calls other than all_reduce cost at least through shared memory: a copy, or the sum of a part,
   between two barriers, and a message of which its reader takes the bytes itself.

   cc -O3 -march=native -shared -fPIC -o moved.so moved.c

   All ranks have mapped the same pages: those of the counters, then of each rank a source, a target
   and a slot, of ``stride`` bytes each. limits_of_calls.py times it. */

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define LINE 64      /* bytes of a cache line */
#define SPINS 20000  /* looks at a counter before the core is given to another rank */
#define SLOT 65536   /* bytes up to which a message leaves its sender at once */

/* At the start of the shared pages, which are zero at first; those of one rank. */
struct counters {
    _Alignas(LINE) atomic_ulong turns;  /* barriers that it is in */
    _Alignas(LINE) atomic_ulong posted; /* messages that it has sent */
    _Alignas(LINE) atomic_ulong taken;  /* of those, how many have been read */
};

/* This rank of so many, and the pages. */
struct place {
    struct counters *all;
    char *first;
    size_t stride;
    int rank, ranks;
};

static char *source_of(const struct place *at, int rank) { return at->first + 3 * rank * at->stride; }
static char *target_of(const struct place *at) { return source_of(at, at->rank) + at->stride; }
static char *slot_of(const struct place *at, int rank) { return source_of(at, rank) + 2 * at->stride; }

static void await(atomic_ulong *counter, unsigned long count) {
    for (int looks = 0; atomic_load_explicit(counter, memory_order_acquire) < count;)
        if (++looks > SPINS) sched_yield();
}

static void meet(const struct place *at) {
    unsigned long turn = atomic_load_explicit(&at->all[at->rank].turns, memory_order_relaxed) + 1;
    atomic_store_explicit(&at->all[at->rank].turns, turn, memory_order_release);
    for (int other = 0; other < at->ranks; other++) await(&at->all[other].turns, turn);
}

void broadcast(const struct place *at, size_t bytes) {
    meet(at);
    if (at->rank) memcpy(source_of(at, at->rank), source_of(at, 0), bytes);
    meet(at);
}

void all_gather(const struct place *at, size_t bytes) {
    size_t part = bytes / at->ranks;
    meet(at);
    for (int rank = 0; rank < at->ranks; rank++)
        memcpy(target_of(at) + rank * part, source_of(at, rank), part);
    meet(at);
}

void all_to_all(const struct place *at, size_t bytes) {
    size_t part = bytes / at->ranks;
    meet(at);
    for (int rank = 0; rank < at->ranks; rank++)
        memcpy(target_of(at) + rank * part, source_of(at, rank) + at->rank * part, part);
    meet(at);
}

static inline __attribute__((always_inline)) void sum(const struct place *at, size_t count, int ranks) {
    float *target = (float *)target_of(at);
    for (size_t i = 0; i < count; i++) {
        float total = 0;
        for (int rank = 0; rank < ranks; rank++)
            total += ((const float *)source_of(at, rank))[at->rank * count + i];
        target[i] = total;
    }
}

/* Of ``bytes`` of floats a rank's part is summed up. */
void reduce_scatter(const struct place *at, size_t bytes) {
    size_t count = bytes / sizeof(float) / at->ranks;
    meet(at);
    if (at->ranks == 2) sum(at, count, 2); /* unrolled and vectorised */
    else sum(at, count, at->ranks);
    meet(at);
}

/* Wait until the message that was sent last has been read. */
void finish(const struct place *at) {
    struct counters *own = &at->all[at->rank];
    await(&own->taken, atomic_load_explicit(&own->posted, memory_order_relaxed));
}

/* Send the source: a short message leaves at once, of a long one ``finish`` waits for the end. */
void post(const struct place *at, size_t bytes) {
    struct counters *own = &at->all[at->rank];
    finish(at);
    if (bytes <= SLOT) memcpy(slot_of(at, at->rank), source_of(at, at->rank), bytes);
    unsigned long next = atomic_load_explicit(&own->posted, memory_order_relaxed) + 1;
    atomic_store_explicit(&own->posted, next, memory_order_release);
}

/* Receive the next message of a rank into the target. */
void take(const struct place *at, int from, size_t bytes) {
    struct counters *theirs = &at->all[from];
    unsigned long next = atomic_load_explicit(&theirs->taken, memory_order_relaxed) + 1;
    await(&theirs->posted, next);
    memcpy(target_of(at), bytes <= SLOT ? slot_of(at, from) : source_of(at, from), bytes);
    atomic_store_explicit(&theirs->taken, next, memory_order_release);
}
