/* Tensors of torch, by DLPack's structures, of which those parts stand here that are read. */

#include "tensor.h"

typedef struct {
    uint32_t major, minor;
} Version;

typedef struct {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t dimensions;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } of;
    int64_t *shape, *strides;
    uint64_t offset; /* in bytes, of the first element */
} Exchanged;

typedef struct {
    Version version;
    void *older;
    void *allocate, *from_object, *to_object;
    int (*describe)(void *tensor, Exchanged *into);
    void *stream;
} Exchange;

enum { MAJOR = 1, ON_CPU = 1 };
enum { INTEGER = 0, UNSIGNED = 1, FLOAT = 2, BRAIN_FLOAT = 4 };

static const Exchange *exchange;
static PyObject *plain_type, *parameter_type, *is_negated;

static PyObject *attribute_of(const char *module, const char *name) {
    PyObject *from = PyImport_ImportModule(module), *found = NULL;
    if (from) found = PyObject_GetAttrString(from, name);
    Py_XDECREF(from);
    return found;
}

int tensors_begin(void) {
    is_negated = PyUnicode_InternFromString("is_neg");
    plain_type = attribute_of("torch", "Tensor");
    parameter_type = attribute_of("torch.nn", "Parameter");
    PyObject *table = NULL;
    if (plain_type && parameter_type)
        table = PyObject_GetAttrString(plain_type, "__dlpack_c_exchange_api__");
    const Exchange *given = table ? PyCapsule_GetPointer(table, "dlpack_exchange_api") : NULL;
    if (given && given->version.major == MAJOR && given->describe) exchange = given;
    Py_XDECREF(table);
    PyErr_Clear(); /* without torch, or with one that has no such table, nothing is plain */
    return is_negated ? 0 : -1;
}

static int type_of(const Exchanged *tensor) {
    switch (tensor->of.code << 8 | tensor->of.bits) {
    case FLOAT << 8 | 32: return F32;
    case FLOAT << 8 | 64: return F64;
    case FLOAT << 8 | 16: return F16;
    case BRAIN_FLOAT << 8 | 16: return BF16;
    case INTEGER << 8 | 8: return I8;
    case INTEGER << 8 | 16: return I16;
    case INTEGER << 8 | 32: return I32;
    case INTEGER << 8 | 64: return I64;
    case UNSIGNED << 8 | 8: return U8;
    case UNSIGNED << 8 | 16: return U16;
    case UNSIGNED << 8 | 32: return U32;
    case UNSIGNED << 8 | 64: return U64;
    default: return TYPES;
    }
}

/* The elements, if they follow each other in the order of the dimensions; else 0. */
static size_t contiguous(const Exchanged *tensor) {
    int64_t elements = 1;
    for (int at = tensor->dimensions - 1; at >= 0; at--) {
        if (tensor->shape[at] != 1 && tensor->strides[at] != elements) return 0;
        elements *= tensor->shape[at];
    }
    return (size_t)elements;
}

/* Whether its elements are to be read with the other sign, as torch.imag of a conjugate's. */
static int is_negative(PyObject *tensor, int type) {
    if (type != F32 && type != F64 && type != F16) return 0;
    PyObject *answer = PyObject_CallMethodObjArgs(tensor, is_negated, NULL);
    int negative = answer != Py_False;
    Py_XDECREF(answer);
    return negative;
}

int is_plain(PyObject *tensor, struct vector *vector) {
    PyObject *of = (PyObject *)Py_TYPE(tensor);
    Exchanged found;
    if (!exchange || (of != plain_type && of != parameter_type)) return 0;
    if (exchange->describe(tensor, &found)) {
        PyErr_Clear(); /* of a layout, or on a device, that DLPack cannot say */
        return 0;
    }
    if (found.device.type != ON_CPU || found.of.lanes != 1 || !found.data) return 0;
    int type = type_of(&found);
    size_t elements = contiguous(&found);
    if (type == TYPES || !elements) return 0;
    if (is_negative(tensor, type)) {
        PyErr_Clear();
        return 0;
    }
    vector->data = (uint8_t *)found.data + found.offset;
    vector->elements = elements;
    vector->bytes = elements * (found.of.bits / 8);
    vector->type = (enum type)type;
    vector->rows = found.dimensions ? (size_t)found.shape[0] : 1;
    return 1;
}

int is_one_plain(PyObject *tensors, struct vector *vector) {
    return PyList_Check(tensors) && PyList_Size(tensors) == 1 &&
           is_plain(PyList_GetItem(tensors, 0), vector);
}
