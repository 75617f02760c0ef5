/* A group of ranks that share memory: its barrier, its slots, and how it waits.

   The memory is laid out by barrier.py and exchange.py of backend/host, whose Python works on the
   same words: that is the description of the protocol, and this is it in C11, where acquire and
   release say what x86-64 gives for nothing, so that it holds on ARM too. */

#ifndef STEPTIME_GROUP_H
#define STEPTIME_GROUP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define LINE 16     /* words between those that different ranks write */
#define LINE_BYTES 128
#define CALL_WORDS 8 /* of a call as call.py encodes it */
#define MOST_RANKS 1024
#define CLOSED UINT64_MAX /* where no other rank can reach */

typedef _Atomic uint64_t word;

/* What a wait does when it has lasted long: 0 to go on, -1 to break off (an error is set). Called
   again and again with ``waiting`` 1, and once with 0 when it is over. */
typedef int (*watcher)(void *owner, int waiting);

/* Maps the part of a rank's arena that holds the byte at ``offset``: fills in the mapping and returns
   0, or -1 (an error is set). */
struct mapping {
    int rank;
    uint64_t start, end; /* offsets in the arena of that rank */
    uint8_t *address;    /* where ``start`` is mapped here */
};
typedef int (*mapper)(void *owner, uint64_t offset, struct mapping *mapping);

struct group {
    int rank, ranks;
    int looks;            /* at a counter before another process may run */
    uint64_t count;       /* points of the barrier that this rank has reached */
    uint64_t number;      /* of its latest call */
    uint64_t turn;        /* which of the two sets of slots is in use */
    word *counters;       /* (ranks, LINE): how many points each rank has reached; then its number */
    word *sleeping;       /* (ranks) */
    word *calls;          /* (2, ranks, LINE): by parity of the call's number */
    uint8_t *slots;       /* (2, ranks, slot_bytes) */
    size_t slot_bytes;
    watcher watch;
    mapper map;
    void *owner;          /* handed to ``watch`` and ``map`` */
    struct mapping *mappings;
    size_t mapped;
};

/* A counter in shared memory, which one process alone writes. Those that wait for it have a word each
   that says so, ``asleep``, which the writer looks at. */

/* Whether the counter has reached ``count``; then what was written before is to be seen. */
int reached(word *counter, uint64_t count);

/* Set the counter, and wake those who wait for it if any of the ``sleepers`` sleeps. */
void advance(word *counter, uint64_t count, word *asleep, int sleepers);

/* Wait actively, then asleep, for some 50 ms at most; whether the counter has reached ``count``. */
int wait_for(word *counter, uint64_t count, word *asleep, int looks);

/* Look without a call of the system for some microseconds, or as long as ``wait_for`` looks; whether the
   counter has reached ``count``. */
enum patience { SOON, LONG };
int comes(word *counter, uint64_t count, int looks, enum patience patience);

/* Wake all who wait for the counter. */
void wake_all(word *counter);

enum outcome { DONE = 0, BROKEN = -1, MISMATCH = -2, UNEVEN = -3 };

/* Pass the next point of the barrier; DONE or BROKEN. */
enum outcome pass(struct group *group);

/* Begin a call and pass the point at which all ranks compare what they call. ``where`` and ``size``
   are words that the others read by ``place_of`` and ``size_of``. DONE, BROKEN or MISMATCH. */
enum outcome arrive(struct group *group, const void *call, uint64_t where, uint64_t size);

/* The words that a rank gave to ``arrive`` in the present call. */
uint64_t place_of(const struct group *group, int rank);
uint64_t size_of(const struct group *group, int rank);

/* Wake the ranks that wait for this one. */
void wake(struct group *group);

/* Whether all ranks, or ``root`` alone where it is not EVERYONE, gave ``arrive`` another place than
   CLOSED. */
#define EVERYONE -1
int are_open(const struct group *group, int root);

/* Where the byte at ``offset`` of a rank's arena is mapped here; NULL where that failed. */
uint8_t *window(struct group *group, int rank, uint64_t offset);

/* The slot of a rank in the set that is in use. */
static inline uint8_t *slot_of(const struct group *group, int rank) {
    return group->slots + (group->turn * group->ranks + rank) * group->slot_bytes;
}

/* The bytes of each of ``pieces`` parts of a slot. */
static inline size_t stride_of(const struct group *group, int pieces) {
    return group->slot_bytes / (size_t)pieces / LINE_BYTES * LINE_BYTES;
}

#endif
