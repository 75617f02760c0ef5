/* The module steptime.record._recorder, which _recorder.pyi describes. */

#include "recorder.h"

struct names names;
PyObject *method_type;

static int fill(PyObject *module) {
    rows_at_fork();
#define X(name) \
    if (!(names.name = PyUnicode_InternFromString(#name))) return -1;
    NAMES
#undef X
    PyObject *types = PyImport_ImportModule("types");
    method_type = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
    Py_XDECREF(types);
    if (!method_type) return -1;
    PyType_Spec *specs[] = {&rows_spec, &kernel_spec, &method_spec, &wait_spec, &marks_spec};
    for (size_t at = 0; at < sizeof specs / sizeof *specs; at++) {
        PyObject *type = PyType_FromSpec(specs[at]);
        int failed = !type || PyModule_AddType(module, (PyTypeObject *)type);
        if (specs[at] == &marks_spec)
            marks_type = (PyTypeObject *)type; /* and it lives as long as Python does */
        else
            Py_XDECREF(type);
        if (failed) return -1;
    }
    PyObject *capsule = PyCapsule_New((void *)&functions, FUNCTIONS, NULL);
    int failed = !capsule || PyModule_AddObjectRef(module, "functions", capsule);
    Py_XDECREF(capsule);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "steptime.record._recorder",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__recorder(void) { return PyModuleDef_Init(&module); }
