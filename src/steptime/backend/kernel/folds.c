/* The loops of loops.h, compiled for several instruction sets of which the processor chooses one. */

#include "folds.h"

#include <stdint.h>
#include <string.h>

struct folds {
    fold typed[TYPES][4];
    fold bits[3];
};

static inline float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* bfloat16 is the upper half of a float; rounded to nearest, ties to even. */
static inline float from_bfloat16(uint16_t half) { return as_float((uint32_t)half << 16); }

static inline uint16_t to_bfloat16(float value) {
    uint32_t bits = as_bits(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

/* IEEE half, after F. Giesen's branch-free conversions: https://gist.github.com/rygorous/2156668.
   Subnormals are made by one addition to a number whose last bit is theirs. */
static inline float from_half(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    uint32_t exponent = magnitude & 0x0f800000;
    uint32_t normal = magnitude + (112u << 23);
    uint32_t special = magnitude + (224u << 23); /* infinity and NaN */
    uint32_t small = as_bits(as_float(magnitude + (113u << 23)) - as_float(113u << 23));
    uint32_t bits = exponent == 0x0f800000 ? special : exponent == 0 ? small : normal;
    return as_float(bits | (uint32_t)(half & 0x8000) << 16);
}

static inline uint16_t to_half(float value) {
    uint32_t bits = as_bits(value), sign = bits & 0x80000000;
    uint32_t magnitude = bits ^ sign;
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t small = as_bits(as_float(magnitude) + 0.5f) - as_bits(0.5f);
    uint32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t half = magnitude < (113u << 23) ? small : normal;
    half = magnitude >= (143u << 23) ? special : half; /* 2^16 and more */
    return (uint16_t)(half | sign >> 16);
}

#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define NAMED(name) name##_plain
#include "loops.h"
#undef NAMED

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDER 1

#pragma GCC push_options
#pragma GCC target("avx2")
#define NAMED(name) name##_avx2
#include "loops.h"
#undef NAMED
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#define NAMED(name) name##_avx512
#include "loops.h"
#undef NAMED
#pragma GCC pop_options
#endif

static const struct folds *widest(const char **name) {
#ifdef WIDER
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        *name = "avx512";
        return &folds_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        *name = "avx2";
        return &folds_avx2;
    }
#endif
    *name = "";
    return &folds_plain;
}

const char *instructions(void) {
    const char *name;
    widest(&name);
    return name;
}

struct reduction reduction_of(enum type type, enum operation operation) {
    static const size_t sizes[TYPES] = {4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 8, 8};
    struct reduction found = {NULL, sizes[type], sizes[type], operation == AVG};
    const char *name;
    const struct folds *folds = widest(&name);
    if (operation == AVG) found.fold = folds->typed[type][SUM];
    else if (operation < BAND) found.fold = folds->typed[type][operation];
    else if (type >= I8) {
        found.fold = folds->bits[operation - BAND];
        found.unit = 1;
    }
    return found;
}

void reduce(const struct reduction *by, void *const *outs, int writers, const void *const *ins,
            int ranks, size_t elements) {
    if (ranks == 1) {
        for (int out = 0; out < writers; out++)
            if (outs[out] != ins[0]) memcpy(outs[out], ins[0], elements * by->size);
        return;
    }
    by->fold(outs, writers, ins, ranks, elements * (by->size / by->unit),
             by->average ? ranks : 0);
}
