/* Ranks of a group without Python: processes that make random calls of the kernel and check them, and
   send each other messages.

   kernel_ranks RANKS CALLS; exits with 0 where every element was right on every rank. */

#define _GNU_SOURCE
#include "channel.h"
#include "collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOT_BYTES (64 << 10)
#define MOST 40000 /* floats of a tensor: several blocks of slots */
#define PARTS 3    /* ranks at most */
#define STRIDE ((size_t)PARTS * MOST + 1024)

static int watch(void *owner, int waiting) {
    (void)owner;
    (void)waiting;
    return 0;
}

static int nowhere(void *owner, uint64_t offset, struct mapping *mapping) {
    (void)owner;
    (void)offset;
    (void)mapping;
    return -1;
}

static float value(int rank, int call, size_t index) {
    return (float)((index * 7 + index / 61 + (size_t)call * 3 + (size_t)rank * 5) % 64);
}

static void *shared(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(2);
    return memory;
}

enum kind { ALL_REDUCE, REDUCE, BROADCAST, GATHER, SCATTER, EXCHANGE, KINDS };

/* One rank's memory: where its parts lie, those that it gets, and what the others may reach of them. */
struct memory {
    float *parts, *landing; /* (PARTS, MOST) */
    uint64_t where;         /* of the first part */
};

static uint8_t *part(float *parts, int index) { return (uint8_t *)(parts + (size_t)index * MOST); }

static size_t uneven(size_t elements, int from, int to) {
    return (elements * (size_t)(1 + from) + 3 * (size_t)to) % MOST;
}

/* all_to_all of parts that are not even, whose sizes each rank knows. */
static enum outcome exchange_parts(struct group *group, const void *words, uint8_t **outputs,
                                   uint8_t **inputs, size_t elements, uint64_t where) {
    struct share shares[PARTS];
    for (int rank = 0; rank < group->ranks; rank++)
        shares[rank] = (struct share){
            .where = where == CLOSED ? CLOSED : where + (uint64_t)rank * MOST * 4,
            .sent = 4 * uneven(elements, group->rank, rank),
            .expected = 4 * uneven(elements, rank, group->rank),
        };
    enum outcome outcome = all_to_all(group, words, outputs, inputs, CLOSED, CLOSED);
    return outcome == UNEVEN ? exchange(group, outputs, inputs, shares) : BROKEN;
}

static enum outcome make(struct group *group, struct memory memory, int call, size_t elements) {
    struct reduction sum = reduction_of(F32, SUM);
    unsigned char words[8 * CALL_WORDS] = {(unsigned char)call};
    uint8_t *inputs[PARTS], *outputs[PARTS], *own = part(memory.parts, 0);
    uint64_t places[PARTS], where = memory.where;
    int root = call % group->ranks;
    for (int index = 0; index < PARTS; index++) {
        inputs[index] = part(memory.parts, index);
        outputs[index] = part(memory.landing, index);
        places[index] = where == CLOSED ? CLOSED : where + (uint64_t)index * MOST * 4;
    }
    switch (call % KINDS) {
    case ALL_REDUCE: return reduce_to(group, words, own, elements, &sum, EVERYONE, where);
    case REDUCE: return reduce_to(group, words, own, elements, &sum, root, where);
    case BROADCAST: return broadcast(group, words, own, elements * 4, root, where);
    case GATHER:
        return gather(group, words, root == group->rank ? outputs : NULL, own, elements * 4, where);
    case SCATTER:
        return scatter(group, words, outputs[0], inputs, places, elements * 4, root);
    default: return exchange_parts(group, words, outputs, inputs, elements, where);
    }
}

/* What element i of tensor ``index`` should be on this rank; of a part, ``value`` of its sender. */
static float wanted(const struct group *group, int call, int index, size_t i) {
    int root = call % group->ranks, kind = call % KINDS;
    float sum = 0;
    for (int rank = 0; rank < group->ranks; rank++) sum += value(rank, call, i);
    switch (kind) {
    case ALL_REDUCE: return sum;
    case REDUCE: return root == group->rank ? sum : value(group->rank, call, i);
    case BROADCAST: return value(root, call, i);
    case GATHER: return root == group->rank ? value(index, call, i) : -1;
    case SCATTER: return value(root, call + group->rank, i);
    default: return value(index, call + group->rank, i);
    }
}

/* Whether one call with ``elements`` floats does what it should. */
static int right(struct group *group, float *arena, int call, size_t elements) {
    static float plain[PARTS * MOST], landing[PARTS * MOST], moved[PARTS * MOST];
    int kind = call % KINDS, in_arena = call % 5 < 3, in_place = kind <= BROADCAST;
    int tensors = kind == GATHER || kind == EXCHANGE ? group->ranks : 1;
    float *own = in_arena ? arena + (size_t)group->rank * STRIDE : plain;
    for (int index = 0; index < PARTS; index++)
        for (size_t i = 0; i < MOST; i++) own[index * MOST + i] = value(group->rank, call + index, i);
    for (size_t i = 0; i < PARTS * MOST; i++) landing[i] = -1;
    struct memory memory = {own, landing, in_arena ? 0 : CLOSED};
    if (make(group, memory, call, elements)) return 0;
    memcpy(moved, in_place ? own : landing, sizeof moved);
    for (int index = 0; index < tensors; index++) {
        size_t count = kind == EXCHANGE ? uneven(elements, index, group->rank) : elements;
        for (size_t i = 0; i < count; i++)
            if (moved[index * MOST + i] != wanted(group, call, index, i)) return 0;
        if (!in_place && count < MOST && moved[index * MOST + count] != -1) return 0;
    }
    return 1; /* and what lies in the arena may be written again at once */
}

static int run(struct group *group, float *arena, int calls) {
    unsigned state = 1;
    for (int call = 0; call < calls; call++) {
        state = state * 1103515245 + 12345;
        size_t elements = call % 7 ? state / 65536 % 3000 : state / 65536 % MOST;
        if (!right(group, arena, call, elements)) {
            fprintf(stderr, "rank %d: call %d of %zu is wrong\n", group->rank, call, elements);
            return 1;
        }
    }
    return 0;
}

#define MOST_MESSAGE (3 * RING_BYTES)

/* Whether rank 1 gets what rank 0 sends; ``writer`` is the process out of which it may copy. */
static int messages_are_right(word *words, uint8_t *ring, int rank, int calls, pid_t writer) {
    static uint8_t payload[MOST_MESSAGE];
    struct channel channel = {.words = words, .ring = ring, .looks = 1, .writer = writer};
    unsigned state = 1;
    for (int call = 0; call < calls; call++) {
        state = state * 1103515245 + 12345;
        size_t bytes = call % 4 ? state / 65536 % 3000 : state / 65536 * 97 % MOST_MESSAGE;
        uint64_t words_of_call[CALL_WORDS] = {(uint64_t)call};
        enum step step;
        if (rank == 0) {
            memset(payload, call & 0xFF, bytes);
            step = channel_put(&channel, words_of_call, call, payload, bytes, CLOSED);
        } else {
            while (!channel_next(&channel)) channel_await(&channel, channel_written(&channel));
            if (channel_next(&channel)[0] != (uint64_t)call) return 0;
            step = channel_get(&channel, payload, bytes);
        }
        while (step == WAITING) step = channel_go_on(&channel);
        for (size_t i = 0; i < bytes; i++)
            if (payload[i] != (call & 0xFF)) return 0;
    }
    return 1;
}

/* Rank 0 sends to rank 1, first with offers that are taken, then with such as are refused. */
static int message(word *words, uint8_t *ring, int calls) {
    pid_t writer = getpid(), reader = fork();
    if (!reader)
        _exit(!(messages_are_right(words, ring, 1, calls, writer) &&
                messages_are_right(words + 8 * LINE, ring + RING_BYTES, 1, calls, 0)));
    int status, right = messages_are_right(words, ring, 0, calls, writer) &&
                        messages_are_right(words + 8 * LINE, ring + RING_BYTES, 0, calls, writer);
    return waitpid(reader, &status, 0) == reader && WIFEXITED(status) && !WEXITSTATUS(status) &&
           right;
}

int main(int count, char **given) {
    int ranks = count > 1 ? atoi(given[1]) : 2, calls = count > 2 ? atoi(given[2]) : 1000;
    if (!message(shared(sizeof(word) * LINE * 16), shared(2 * RING_BYTES), calls)) {
        fprintf(stderr, "a message is wrong\n");
        return 1;
    }
    word *words = shared(sizeof(word) * LINE * (size_t)ranks * 8);
    uint8_t *slots = shared((size_t)ranks * 2 * SLOT_BYTES);
    float *arena = shared(sizeof(float) * STRIDE * (size_t)ranks);
    for (int rank = 0; rank < ranks; rank++) {
        if (fork()) continue;
        struct mapping *mappings = calloc((size_t)ranks, sizeof *mappings);
        for (int other = 0; other < ranks; other++) {
            float *start = arena + (size_t)other * STRIDE;
            mappings[other] = (struct mapping){other, 0, STRIDE * 4, (uint8_t *)start};
        }
        struct group group = {
            .rank = rank, .ranks = ranks, .looks = 1, .counters = words,
            .sleeping = words + ranks * LINE, .calls = words + 2 * ranks * LINE,
            .slots = slots, .slot_bytes = SLOT_BYTES, .watch = watch, .map = nowhere,
            .mappings = mappings, .mapped = (size_t)ranks,
        };
        int failed = run(&group, arena, calls);
        free(mappings);
        exit(failed);
    }
    int worst = 0, status;
    while (wait(&status) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status)) worst = 1;
    return worst;
}
