/* Reductions of vectors: which loop serves an operation on a type of elements. */

#ifndef STEPTIME_FOLDS_H
#define STEPTIME_FOLDS_H

#include <stddef.h>

enum type { F32, F64, BF16, F16, I8, U8, I16, U16, I32, U32, I64, U64, TYPES };
enum operation { SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR, AVG, OPERATIONS };

/* A loop that combines ``ranks`` vectors, in their order, into each of ``writers`` vectors, and
   divides the total by ``divide`` where that is not 0. */
typedef void (*fold)(void *const *outs, int writers, const void *const *ins, int ranks,
                     size_t elements, int divide);

/* How to reduce elements of ``size`` bytes: by a loop that counts in units of ``unit`` bytes. */
struct reduction {
    fold fold;
    size_t size, unit;
    int average;
};

/* The reduction of an operation on a type, by the widest instructions that this processor has;
   ``fold`` is NULL where there is none. */
struct reduction reduction_of(enum type type, enum operation operation);

/* Combine ``ranks`` vectors of ``elements``, in their order, into each of ``writers`` vectors, of
   which the first may be one of the inputs and the others as well. */
void reduce(const struct reduction *by, void *const *outs, int writers, const void *const *ins,
            int ranks, size_t elements);

/* The instructions that it uses: "avx512", "avx2", or "" for those that every processor has. */
const char *instructions(void);

#endif
