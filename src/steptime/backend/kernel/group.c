/* The barrier: ranks wait for each other in shared memory, first actively, then on a futex. */

#define _GNU_SOURCE
#include "group.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 50000      /* about what it takes to block and to be woken up */
#define WATCH_NS 50000000  /* how long to block before looking whether the others still live */

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static word *counter_of(const struct group *group, int rank) {
    return group->counters + (size_t)rank * LINE;
}

static int reached(const struct group *group, int rank) {
    return atomic_load_explicit(counter_of(group, rank), memory_order_acquire) >= group->count;
}

/* The half of a 64-bit word that a futex compares: its lower 32 bits. */
static uint32_t *low_half(word *at) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (uint32_t *)at + 1;
#else
    return (uint32_t *)at;
#endif
}

void wake(struct group *group) {
    uint32_t *own = low_half(counter_of(group, group->rank));
    syscall(SYS_futex, own, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Look for a while; whether the rank has come. */
static int look(const struct group *group, int other) {
    int64_t until = now_ns() + LOOK_NS;
    do {
        for (int looks = 0; looks < group->looks; looks++) {
            if (reached(group, other)) return 1;
            relax();
        }
        sched_yield();
    } while (now_ns() < until);
    return reached(group, other);
}

/* Sleep until the rank comes, at most WATCH_NS; whether it has. */
static int nap(struct group *group, int other) {
    word *counter = counter_of(group, other), *asleep = &group->sleeping[group->rank];
    struct timespec limit = {0, WATCH_NS};
    atomic_store_explicit(asleep, 1, memory_order_relaxed);
    /* Either the other sees that this rank sleeps, or this rank sees that it has come. */
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t seen = atomic_load_explicit(counter, memory_order_acquire);
    if (seen < group->count)
        syscall(SYS_futex, low_half(counter), FUTEX_WAIT, (uint32_t)seen, &limit, NULL, 0);
    atomic_store_explicit(asleep, 0, memory_order_relaxed);
    return reached(group, other);
}

static enum outcome await(struct group *group, int other) {
    if (look(group, other) || nap(group, other)) return DONE;
    do {
        if (group->watch(group->owner, 1)) return BROKEN;
    } while (!nap(group, other));
    return group->watch(group->owner, 0) ? BROKEN : DONE;
}

enum outcome pass(struct group *group) {
    group->count++;
    atomic_store_explicit(counter_of(group, group->rank), group->count, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* as in nap */
    for (int other = 0; other < group->ranks; other++)
        if (atomic_load_explicit(&group->sleeping[other], memory_order_relaxed)) {
            wake(group);
            break;
        }
    for (int other = 0; other < group->ranks; other++)
        if (!reached(group, other) && await(group, other)) return BROKEN;
    return DONE;
}

static word *call_of(const struct group *group, int rank) {
    return group->calls + ((group->number & 1) * group->ranks + (size_t)rank) * LINE;
}

enum outcome arrive(struct group *group, const void *call, uint64_t where) {
    group->number++;
    word *own = call_of(group, group->rank);
    memcpy((void *)own, call, CALL_WORDS * sizeof(word));
    atomic_store_explicit(own + CALL_WORDS, where, memory_order_relaxed);
    atomic_store_explicit(counter_of(group, group->rank) + 1, group->number, memory_order_relaxed);
    if (pass(group)) return BROKEN;
    for (int other = 0; other < group->ranks; other++)
        if (memcmp((void *)call_of(group, other), call, CALL_WORDS * sizeof(word)))
            return MISMATCH;
    return DONE;
}

uint64_t place_of(const struct group *group, int rank) {
    return atomic_load_explicit(call_of(group, rank) + CALL_WORDS, memory_order_relaxed);
}

uint8_t *window(struct group *group, int rank, uint64_t offset) {
    for (size_t i = 0; i < group->mapped; i++) {
        const struct mapping *one = &group->mappings[i];
        if (one->rank == rank && one->start <= offset && offset < one->end)
            return one->address + (offset - one->start);
    }
    struct mapping *more = realloc(group->mappings, (group->mapped + 1) * sizeof *more);
    if (!more) return NULL;
    group->mappings = more;
    struct mapping *added = &more[group->mapped];
    added->rank = rank;
    if (group->map(group->owner, offset, added)) return NULL;
    group->mapped++;
    return added->address + (offset - added->start);
}
