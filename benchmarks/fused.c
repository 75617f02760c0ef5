/* What an all_reduce in shared memory costs at least: one loop over pages that all ranks have mapped.

   cc -O3 -march=native -shared -fPIC -o fused.so fused.c

   Rank r adds up the part r of all vectors and writes the sum to all of them, between two barriers:
   every byte is read once and written once, and nothing is called in between. limits.py times it. */

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#define LINE 64      /* bytes of a cache line */
#define SPINS 20000  /* looks at the barrier before the core is given to another rank */

/* At the start of the shared pages, which are zero at first: how many barriers each rank is in. */
struct arrived {
    _Alignas(LINE) atomic_ulong turns;
};

static void barrier(struct arrived *all, int rank, int ranks) {
    unsigned long turn = atomic_load_explicit(&all[rank].turns, memory_order_relaxed) + 1;
    atomic_store_explicit(&all[rank].turns, turn, memory_order_release);
    for (int other = 0; other < ranks; other++)
        for (int looks = 0; atomic_load_explicit(&all[other].turns, memory_order_acquire) < turn;)
            if (++looks > SPINS) sched_yield();
}

static inline __attribute__((always_inline)) void sum(float *first, size_t stride, size_t begin,
                                                      size_t end, int ranks) {
    for (size_t at = begin; at < end; at++) {
        float total = first[at];
        for (int rank = 1; rank < ranks; rank++) total += first[rank * stride + at];
        for (int rank = 0; rank < ranks; rank++) first[rank * stride + at] = total;
    }
}

/* Sum float vectors of so many elements: that of rank r begins r * stride floats after ``first``. */
void fused(struct arrived *all, float *first, size_t stride, size_t elements, int rank, int ranks) {
    size_t begin = elements * rank / ranks, end = elements * (rank + 1) / ranks;
    barrier(all, rank, ranks);
    if (ranks == 2) sum(first, stride, begin, end, 2); /* unrolled and vectorised for each */
    else if (ranks == 4) sum(first, stride, begin, end, 4);
    else sum(first, stride, begin, end, ranks);
    barrier(all, rank, ranks);
}
