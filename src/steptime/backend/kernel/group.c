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

#define LOOK_NS 200000     /* some times what it takes to block and to be woken up */
#define BRIEF_NS 50000     /* the same where ranks share processors */
#define SOON_NS 20000      /* some times what a message of a few bytes takes there and back */
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

/* The half of a 64-bit word that a futex compares: its lower 32 bits. */
static uint32_t *low_half(word *at) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (uint32_t *)at + 1;
#else
    return (uint32_t *)at;
#endif
}

int reached(word *counter, uint64_t count) {
    return atomic_load_explicit(counter, memory_order_acquire) >= count;
}

void wake_all(word *counter) {
    syscall(SYS_futex, low_half(counter), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Look for a while; whether the counter has reached ``count``. */
static int look(word *counter, uint64_t count, int most) {
    int64_t until = now_ns() + (most > 1 ? LOOK_NS : BRIEF_NS);
    do {
        for (int looks = 0; looks < most; looks++) {
            if (reached(counter, count)) return 1;
            relax();
        }
        sched_yield();
    } while (now_ns() < until);
    return reached(counter, count);
}

int comes(word *counter, uint64_t count, int most, enum patience patience) {
    int64_t until = most > 1 ? now_ns() + (patience == LONG ? LOOK_NS : SOON_NS) : 0;
    do {
        for (int looks = 0; looks < most; looks++) {
            if (reached(counter, count)) return 1;
            relax();
        }
    } while (now_ns() < until);
    return reached(counter, count);
}

/* Sleep until the counter reaches ``count``, at most WATCH_NS; whether it has. */
static int nap(word *counter, uint64_t count, word *asleep) {
    struct timespec limit = {0, WATCH_NS};
    atomic_fetch_add_explicit(asleep, 1, memory_order_relaxed); /* several threads may */
    /* Either the other sees that this rank sleeps, or this rank sees the new count. */
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t seen = atomic_load_explicit(counter, memory_order_acquire);
    if (seen < count)
        syscall(SYS_futex, low_half(counter), FUTEX_WAIT, (uint32_t)seen, &limit, NULL, 0);
    atomic_fetch_sub_explicit(asleep, 1, memory_order_relaxed);
    return reached(counter, count);
}

void advance(word *counter, uint64_t count, word *asleep, int sleepers) {
    atomic_store_explicit(counter, count, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* as in nap */
    for (int one = 0; one < sleepers; one++)
        if (atomic_load_explicit(&asleep[one], memory_order_relaxed)) {
            wake_all(counter);
            return;
        }
}

int wait_for(word *counter, uint64_t count, word *asleep, int looks) {
    return look(counter, count, looks) || nap(counter, count, asleep);
}

static word *counter_of(const struct group *group, int rank) {
    return group->counters + (size_t)rank * LINE;
}

void wake(struct group *group) { wake_all(counter_of(group, group->rank)); }

static enum outcome await(struct group *group, word *counter) {
    word *asleep = &group->sleeping[group->rank];
    if (wait_for(counter, group->count, asleep, group->looks)) return DONE;
    do {
        if (group->watch(group->owner, 1)) return BROKEN;
    } while (!nap(counter, group->count, asleep));
    return group->watch(group->owner, 0) ? BROKEN : DONE;
}

enum outcome pass(struct group *group) {
    group->count++;
    advance(counter_of(group, group->rank), group->count, group->sleeping, group->ranks);
    for (int other = 0; other < group->ranks; other++) {
        word *counter = counter_of(group, other);
        if (!reached(counter, group->count) && await(group, counter)) return BROKEN;
    }
    return DONE;
}

static word *call_of(const struct group *group, int rank) {
    return group->calls + ((group->number & 1) * group->ranks + (size_t)rank) * LINE;
}

enum outcome arrive(struct group *group, const void *call, uint64_t where, uint64_t size) {
    group->number++;
    word *own = call_of(group, group->rank);
    memcpy((void *)own, call, CALL_WORDS * sizeof(word));
    atomic_store_explicit(own + CALL_WORDS, where, memory_order_relaxed);
    atomic_store_explicit(own + CALL_WORDS + 1, size, memory_order_relaxed);
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

uint64_t size_of(const struct group *group, int rank) {
    return atomic_load_explicit(call_of(group, rank) + CALL_WORDS + 1, memory_order_relaxed);
}

int are_open(const struct group *group, int root) {
    for (int rank = 0; rank < group->ranks; rank++)
        if ((root == EVERYONE || rank == root) && place_of(group, rank) == CLOSED) return 0;
    return 1;
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
