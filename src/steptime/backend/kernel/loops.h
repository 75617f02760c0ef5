/* The arithmetic of reductions: one loop for each operation and type of elements.

   This file is included once for each instruction set, which the macro NAMED puts into the names.
   Every loop is plain C that the compiler vectorises. A fold combines in the order of the ranks,
   so all ranks get the same bits; bfloat16 and half are combined as float and rounded once. */

#define CHUNK 1024 /* elements whose totals stay in the first-level cache */

#define SAME(x) (x)

/* fold: outs[0 … writers) = in[0] OP in[1] OP …, then divided where ``divide`` is not 0. An output
   may be one of the inputs. TYPE is how elements lie in memory, WIDE how they are combined.

   With FOUR up to four vectors are read in one loop, and written in one: their lines of the cache come
   from other processors, and one vector after the other they would be waited for one by one. Sums
   alone have it, which compiles a third faster. */

#define TOTAL(name, TYPE, WIDE, LOAD, OP, FOUR)                                                \
    static void NAMED(name##_total)(WIDE *total, const void *const *ins, int ranks,            \
                                    size_t start, size_t count) {                              \
        const TYPE *in = (const TYPE *)ins[0] + start, *second = (const TYPE *)ins[1] + start; \
        int read = FOUR && ranks >= 4 ? 4 : 2;                                                 \
        if (read == 4) {                                                                       \
            const TYPE *third = (const TYPE *)ins[2] + start;                                  \
            const TYPE *fourth = (const TYPE *)ins[3] + start;                                 \
            EACH(count) {                                                                      \
                WIDE a = LOAD(in[i]), b = LOAD(second[i]), c = LOAD(third[i]);                 \
                a = (WIDE)OP(a, b);                                                            \
                b = LOAD(fourth[i]);                                                           \
                a = (WIDE)OP(a, c);                                                            \
                total[i] = (WIDE)OP(a, b);                                                     \
            }                                                                                  \
        } else {                                                                               \
            EACH(count) {                                                                      \
                WIDE a = LOAD(in[i]), b = LOAD(second[i]);                                     \
                total[i] = (WIDE)OP(a, b);                                                     \
            }                                                                                  \
        }                                                                                      \
        for (int rank = read; rank < ranks; rank++) {                                          \
            in = (const TYPE *)ins[rank] + start;                                              \
            EACH(count) {                                                                      \
                WIDE a = total[i], b = LOAD(in[i]);                                            \
                total[i] = (WIDE)OP(a, b);                                                     \
            }                                                                                  \
        }                                                                                      \
    }

#define FOLD(name, TYPE, WIDE, LOAD, STORE, OP, FOUR)                                          \
    TOTAL(name, TYPE, WIDE, LOAD, OP, FOUR)                                                    \
    static void NAMED(name)(void *const *outs, int writers, const void *const *ins, int ranks, \
                            size_t elements, int divide) {                                     \
        for (size_t start = 0; start < elements; start += CHUNK) {                             \
            size_t count = elements - start < CHUNK ? elements - start : CHUNK;                \
            TYPE *out = (TYPE *)outs[0] + start;                                               \
            TYPE *also = (TYPE *)outs[writers > 1] + start;                                    \
            int written = FOUR && writers >= 4 ? 4 : 1;                                        \
            if (ranks == 2 && !divide) {                                                       \
                const TYPE *first = (const TYPE *)ins[0] + start;                              \
                const TYPE *second = (const TYPE *)ins[1] + start;                             \
                EACH(count) {                                                                  \
                    WIDE a = LOAD(first[i]), b = LOAD(second[i]);                              \
                    out[i] = also[i] = (TYPE)STORE((WIDE)OP(a, b));                            \
                }                                                                              \
                written = 2;                                                                   \
            } else {                                                                           \
                WIDE total[CHUNK];                                                             \
                NAMED(name##_total)(total, ins, ranks, start, count);                          \
                if (divide) {                                                                  \
                    EACH(count) total[i] = (WIDE)(total[i] / (WIDE)divide);                    \
                }                                                                              \
                if (written == 4) {                                                            \
                    TYPE *third = (TYPE *)outs[2] + start, *fourth = (TYPE *)outs[3] + start;  \
                    EACH(count) {                                                              \
                        out[i] = also[i] = third[i] = fourth[i] = (TYPE)STORE(total[i]);       \
                    }                                                                          \
                } else {                                                                       \
                    EACH(count) out[i] = (TYPE)STORE(total[i]);                                \
                }                                                                              \
            }                                                                                  \
            for (int other = written; other < writers; other++)                                \
                memcpy((TYPE *)outs[other] + start, out, count * sizeof(TYPE));                \
        }                                                                                      \
    }

/* An output is at most the very input, element by element: no element depends on another. */
#define EACH(count) INDEPENDENT for (size_t i = 0; i < (count); i++)

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define LEAST(a, b) ((a) < (b) || (a) != (a) ? (a) : (b)) /* NaN wins, as in torch */
#define MOST(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))

#define ORDERED(name, TYPE, WIDE, LOAD, STORE)          \
    FOLD(name##_min, TYPE, WIDE, LOAD, STORE, LEAST, 0) \
    FOLD(name##_max, TYPE, WIDE, LOAD, STORE, MOST, 0)

#define ARITHMETIC(name, TYPE, WIDE, LOAD, STORE)              \
    FOLD(name##_sum, TYPE, WIDE, LOAD, STORE, ADD, 1)          \
    FOLD(name##_product, TYPE, WIDE, LOAD, STORE, MULTIPLY, 0) \
    ORDERED(name, TYPE, WIDE, LOAD, STORE)

/* Bitwise operations have no types: elements are taken byte by byte. */
ARITHMETIC(f32, float, float, SAME, SAME)
ARITHMETIC(f64, double, double, SAME, SAME)
ARITHMETIC(bf16, uint16_t, float, from_bfloat16, to_bfloat16)
ARITHMETIC(f16, uint16_t, float, from_half, to_half)
ARITHMETIC(i8, int8_t, int8_t, SAME, SAME)
ARITHMETIC(u8, uint8_t, uint8_t, SAME, SAME)
ARITHMETIC(i16, int16_t, int16_t, SAME, SAME)
ARITHMETIC(u16, uint16_t, uint16_t, SAME, SAME)
ARITHMETIC(i32, int32_t, int32_t, SAME, SAME)
ARITHMETIC(u32, uint32_t, uint32_t, SAME, SAME)
ARITHMETIC(i64, int64_t, int64_t, SAME, SAME)
ARITHMETIC(u64, uint64_t, uint64_t, SAME, SAME)
FOLD(band, uint8_t, uint8_t, SAME, SAME, AND, 0)
FOLD(bor, uint8_t, uint8_t, SAME, SAME, OR, 0)
FOLD(bxor, uint8_t, uint8_t, SAME, SAME, XOR, 0)

#define TYPED(name) {NAMED(name##_sum), NAMED(name##_product), NAMED(name##_min), NAMED(name##_max)}

static const struct folds NAMED(folds) = {
    .typed = {TYPED(f32), TYPED(f64), TYPED(bf16), TYPED(f16), TYPED(i8), TYPED(u8), TYPED(i16),
              TYPED(u16), TYPED(i32), TYPED(u32), TYPED(i64), TYPED(u64)},
    .bits = {NAMED(band), NAMED(bor), NAMED(bxor)},
};

#undef CHUNK
#undef SAME
#undef TOTAL
#undef FOLD
#undef EACH
#undef ADD
#undef MULTIPLY
#undef LEAST
#undef MOST
#undef AND
#undef OR
#undef XOR
#undef ORDERED
#undef ARITHMETIC
#undef TYPED
