/* What a tensor of torch holds, asked of torch without its headers.

   torch hands out a table of functions by DLPack (github.com/dmlc/dlpack, DLPackExchangeAPI), which
   tell in some twenty nanoseconds what its attributes tell in a microsecond. */

#ifndef STEPTIME_TENSOR_H
#define STEPTIME_TENSOR_H

#include "folds.h"
#include "module.h"

/* A tensor whose elements lie at ``data`` as they are, one after the other, on the CPU. */
struct vector {
    uint8_t *data;
    size_t elements, bytes;
    enum type type;
    size_t rows; /* of its first dimension, or 1 */
};

/* Whether a tensor is such a vector, which is filled in then; not those without elements, of
   subclasses, or of types that folds.h has not. */
int is_plain(PyObject *tensor, struct vector *vector);

/* Whether a list has one element, and that is plain. */
int is_one_plain(PyObject *tensors, struct vector *vector);

#endif
