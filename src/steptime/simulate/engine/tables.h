/* Tables: arrays as Python gives them, each its address, how many rows it has and items of a row.
 *
 * A NamedTuple of arrays in Python is a struct of tables here, in the same order. No index is checked.
 */

#ifndef STEPTIME_TABLES_H
#define STEPTIME_TABLES_H

#include <stdbool.h>
#include <stdint.h>

struct table {
    void *at;
    int64_t rows, width;
};

/* A list of tables, X(type, name) X(type, name) ..., becomes a struct of them by TABLE, and what an
 * item of each takes, in bytes, by ITEM. */
#define TABLE(type, name) \
    struct {              \
        type *at;         \
        int64_t rows, width; \
    } name;
#define ITEM(type, name) sizeof(type),

#define NONE (-1) /* in the place of a number */

static inline double least(double one, double other) { return other < one ? other : one; }
static inline double most(double one, double other) { return other > one ? other : one; }

#endif
