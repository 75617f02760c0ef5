// The module steptime.record._dispatch: what the dispatcher calls in place of an operator of c10d,
// without a way through Python. It needs torch's own headers, and so it is of one release of torch.
//
// Here is the way of a call of which nothing is new: its group, what it is called with and its place
// were met before. Any other goes to the kernel in Python, under a key of the dispatcher that nobody
// uses, and what that has written down is known from then on. So do all calls that somebody watches.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/utils/pybind.h>
#include <torch/custom_class.h>
#include <torch/library.h>
#include <torch/version.h>

#include <ctime>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "../recorder/event.h"

namespace py = pybind11;
using c10::IValue;
using torch::jit::Stack;
using Key = std::vector<int64_t>;

namespace {

constexpr auto OURS = c10::DispatchKey::BackendSelect;
constexpr auto PYTHONS = c10::DispatchKey::DeferredInit;
const auto BELOW = c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, OURS);

struct Hash {
    size_t operator()(const Key &key) const {
        size_t found = key.size();
        for (int64_t part : key) found = found * 1000003 ^ std::hash<int64_t>()(part);
        return found;
    }
};

// A group that was met; ``reference``, a weak one, tells whether it lives.
struct Group {
    py::object reference;
    uint16_t number;
};

struct Called {
    uint32_t signature;
    int64_t bytes;
};

// What all operators share. The interpreter's lock is held by whoever reads or writes it.
struct Shared {
    py::object calls, of_thread, watchers, works, let_go, to_end, known_groups, rows;
    std::vector<py::object> kernels; // in Python
    const recorder_functions *recorder = nullptr;
    std::unordered_map<const void *, Group> groups;
    std::unordered_map<Key, Called, Hash> called;
};

// The names of attributes, and numbers, each once; as long as Python lives.
struct Names {
    PyObject *inside = PyUnicode_InternFromString("inside");
    PyObject *marks = PyUnicode_InternFromString("marks");
    PyObject *work = PyUnicode_InternFromString("work");
    PyObject *at_once = PyUnicode_InternFromString("at_once");
    PyObject *returned = PyUnicode_InternFromString("returned");
    PyObject *reduction = PyUnicode_InternFromString("reduction");
    PyObject *none_yet = PyLong_FromLong(-1);
};

const Names &names() {
    static const Names found;
    return found;
}

int64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

void set(const py::object &object, PyObject *name, PyObject *value) {
    if (PyObject_SetAttr(object.ptr(), name, value)) throw py::error_already_set();
}

void set(const py::object &object, PyObject *name, int64_t value) {
    set(object, name, py::int_(value).ptr());
}

py::object get(const py::object &object, PyObject *name) {
    auto found = py::reinterpret_steal<py::object>(PyObject_GetAttr(object.ptr(), name));
    if (!found) throw py::error_already_set();
    return found;
}

// Add what tells one call from another: tensors, splits, a tag, a reduction. False where Python is to
// say that, as of a tensor whose sizes the compiler does not know yet.
bool add(Key &key, const at::Tensor &tensor) {
    if (!tensor.defined()) {
        key.push_back(-1);
        return true;
    }
    if (tensor.layout() != c10::kStrided) return false;
    if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
    auto sizes = tensor.sizes();
    key.push_back(static_cast<int64_t>(tensor.scalar_type()) * 2 + tensor.is_contiguous());
    key.push_back(static_cast<int64_t>(sizes.size()));
    key.insert(key.end(), sizes.begin(), sizes.end());
    return true;
}

bool add(Key &key, const IValue &value) {
    if (value.isTensor()) return add(key, value.toTensor());
    if (value.isList()) {
        auto list = value.toListRef();
        key.push_back(static_cast<int64_t>(list.size()));
        for (const IValue &one : list)
            if (!add(key, one)) return false;
    } else if (value.isInt()) {
        key.push_back(value.toInt());
    } else if (value.isObject()) {
        key.push_back(static_cast<int64_t>(value.toCustomClass<c10d::ReduceOp>()->op_));
    }
    return true;
}

int64_t address(const IValue &value) {
    if (value.isList()) {
        auto list = value.toListRef();
        return list.empty() ? 0 : address(list.front());
    }
    try {
        return reinterpret_cast<int64_t>(value.toTensor().data_ptr());
    } catch (const std::exception &) { // it has no memory
        return 0;
    }
}

// A kernel for one operator, whose arguments stand where ``Operation`` of operations.py says.
struct Kernel : c10::OperatorKernel {
    Shared *shared;
    PyObject *in_python;
    int number, group, peer, waits, tensors;
    bool reduces, is_message, from_any;
    std::vector<size_t> telling; // which arguments are part of the key

    // A call of which nothing is new, as it is written down; else which event Python's would be.
    struct Begun {
        bool passes = false; // it is none of ours to record
        int64_t event = -1, python = -1, address = 0;
        Key key;
        const void *group = nullptr;
        bool waits = false;
        bool marked = false; // by a GPU
        int mark = NO_MARK;
    };

    void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack) {
        // Whoever calls from Python has let go of its lock, or does now: C++ communicates.
        std::optional<py::gil_scoped_release> free;
        if (PyGILState_Check()) free.emplace();
        const auto onwards = keys & BELOW;
        const size_t first = stack->size() - op.schema().arguments().size();
        Begun begun = begin(stack->data() + first);
        if (begun.event >= 0) {
            op.redispatchBoxed(onwards, stack);
            const int64_t returned = now();
            end(begun, returned, op.schema().returns().empty() ? IValue() : stack->back());
            return;
        }
        op.redispatchBoxed(begun.passes ? onwards : onwards.add(PYTHONS), stack);
        if (begun.python >= 0) learn(begun);
    }

    Begun begin(const IValue *arguments) {
        py::gil_scoped_acquire lock;
        Begun begun;
        begun.passes = !get(shared->of_thread, names().inside).is(py::handle(Py_False));
        if (begun.passes || PyList_GET_SIZE(shared->watchers.ptr())) return begun;
        py::object marks = get(shared->calls, names().marks);
        begun.marked = !marks.is_none();
        if (begun.marked && !shared->recorder->has_marks(marks.ptr())) return begun;
        begun.group = arguments[group].toObjectRef().getSlot(0).toCapsule().get();
        begun.waits = waits >= 0 && !arguments[waits].toBool();
        begun.address = tensors < 0 ? 0 : address(arguments[tensors]);
        begun.key.reserve(16);
        begun.key.push_back(number);
        for (size_t at : telling)
            if (!add(begun.key, arguments[at])) return begun;
        event told{};
        if (!knows(begun, told)) {
            begun.python = shared->recorder->next(shared->rows.ptr());
            return begun;
        }
        if (begun.marked) begun.mark = take(marks);
        begun.event = write(begun, told, arguments);
        return begun;
    }

    // A mark of where the GPU is now.
    int take(const py::object &marks) {
        int mark = shared->recorder->take(marks.ptr());
        if (mark == NO_MARK && PyErr_Occurred()) throw py::error_already_set();
        return mark;
    }

    bool knows(Begun &begun, event &told) {
        auto met = shared->groups.find(begun.group);
        if (met == shared->groups.end()) return false;
        if (PyWeakref_GetObject(met->second.reference.ptr()) == Py_None) {
            shared->groups.erase(met); // and another may have its address
            return false;
        }
        begun.key.push_back(met->second.number);
        auto known = shared->called.find(begun.key);
        begun.key.pop_back();
        if (known == shared->called.end()) return false;
        told.group = met->second.number;
        told.signature = known->second.signature;
        told.bytes = known->second.bytes;
        return true;
    }

    int64_t write(const Begun &begun, event &told, const IValue *arguments) {
        set(shared->of_thread, names().work, Py_None);
        set(shared->of_thread, names().at_once, names().none_yet);
        if (reduces) set(shared->of_thread, names().reduction, Py_None);
        int64_t place = shared->recorder->site(in_python);
        if (place < 0) throw py::error_already_set();
        told.kind = CALL;
        told.operation = static_cast<uint8_t>(number);
        told.flags = begun.waits ? 0 : ASYNC;
        told.peer = peer < 0 ? -1 : static_cast<int32_t>(arguments[peer].toInt());
        told.site = static_cast<uint32_t>(place);
        told.address = begun.address;
        told.issued = now();
        int64_t event = shared->recorder->write(shared->rows.ptr(), &told);
        if (event < 0) throw py::error_already_set();
        return event;
    }

    // Take what Python has written down of a call for what holds of all that are like it.
    void learn(Begun &begun) {
        py::gil_scoped_acquire lock;
        const event *told = shared->recorder->read(shared->rows.ptr(), begun.python);
        if (!told || told->kind != CALL || told->operation != number) return;
        if (told->address != begun.address) return; // that of another thread came between
        for (auto known : py::reinterpret_borrow<py::dict>(shared->known_groups)) {
            auto [reference, met] = known.second.cast<std::pair<py::object, int64_t>>();
            if (met == told->group) shared->groups[begun.group] = {reference, told->group};
        }
        begun.key.push_back(told->group);
        shared->called[begun.key] = {told->signature, told->bytes};
    }

    // A call came back, with its Work last.
    void end(const Begun &begun, int64_t returned, const IValue &last) {
        py::gil_scoped_acquire lock;
        const recorder_functions *recorder = shared->recorder;
        PyObject *rows = shared->rows.ptr();
        py::object marks = get(shared->calls, names().marks);
        const bool marked = begun.marked && recorder->has_marks(marks.ptr());
        if (marked) recorder->keep(marks.ptr(), begun.event, ISSUED, begun.mark);
        if (begun.waits && !marked) {
            recorder->waited_at_once(rows, begun.event, returned, 0);
            set(shared->of_thread, names().at_once, begun.event);
            set(shared->of_thread, names().returned, returned);
        } else if (last.isNone()) { // as a synchronous call of NCCL, on the script's own stream
            recorder->came_back(rows, begun.event, returned);
            if (begun.waits) recorder->keep(marks.ptr(), begun.event, RETURNED, take(marks));
        } else {
            recorder->returned(rows, begun.event, returned);
            keep(begun, last.toCustomClass<c10d::Work>());
        }
    }

    // Keep the event of a Work, as Calls.may_be_waited does, and see when it is done. Who waits for a
    // call of NCCL makes its stream wait, and the thread that ends calls would make the script's.
    void keep(const Begun &begun, const c10::intrusive_ptr<c10d::Work> &work) {
        py::object found = py::cast(work); // held, so that Python gets this very object
        set(shared->of_thread, names().work, found.ptr());
        py::int_ of(begun.event);
        auto reference = py::reinterpret_steal<py::object>(
            PyWeakref_NewRef(found.ptr(), shared->let_go.ptr()));
        if (!reference || PyDict_SetItem(shared->works.ptr(), reference.ptr(), of.ptr()))
            throw py::error_already_set();
        if (from_any) shared->calls.attr("from_any").attr("add")(of);
        const bool seen = begun.waits || is_message || begun.marked;
        if (!seen && !ends_by_itself(begun.event, *work))
            shared->to_end.attr("put")(py::make_tuple(of, found));
    }

    // Let the thread that ends a call say so. Some backends have no future of their calls.
    bool ends_by_itself(int64_t event, c10d::Work &work) {
        py::gil_scoped_release free; // whoever completes a future may want the lock
        try {
            auto future = work.getFuture();
            if (!future) return false;
            PyObject *rows = shared->rows.ptr(); // that live as long as the process
            const recorder_functions *recorder = shared->recorder;
            uint64_t generation = recorder->generation(rows);
            future->addCallback(
                [=](c10::ivalue::Future &done) {
                    if (!done.hasError()) recorder->end(rows, generation, event, now());
                },
                false);
            return true;
        } catch (const std::exception &) {
            return false;
        }
    }
};

// Neither is taken down when the process ends: Python may be gone by then.
Shared *shared;
torch::Library *library;

// Record the calls of operators from now on, instead of their kernels in Python.
void install(
    py::object calls, const py::capsule &functions, const std::vector<py::dict> &operations) {
    shared = new Shared();
    shared->calls = calls;
    shared->of_thread = calls.attr("of_thread");
    shared->watchers = calls.attr("watchers");
    shared->works = calls.attr("works");
    shared->let_go = shared->works.attr("__delitem__");
    shared->to_end = calls.attr("to_end");
    shared->known_groups = calls.attr("groups");
    shared->rows = calls.attr("log").attr("rows");
    shared->rows.inc_ref();
    shared->recorder = static_cast<const recorder_functions *>(functions.get_pointer());
    library = new torch::Library(torch::Library::IMPL, "c10d", OURS, __FILE__, __LINE__);
    for (const py::dict &one : operations) {
        auto kernel = std::make_unique<Kernel>();
        kernel->shared = shared;
        kernel->in_python = shared->kernels.emplace_back(one["in_python"]).ptr();
        kernel->number = one["number"].cast<int>();
        kernel->group = one["group"].cast<int>();
        kernel->peer = one["peer"].cast<int>();
        kernel->waits = one["waits"].cast<int>();
        kernel->tensors = one["tensors"].cast<int>();
        kernel->reduces = one["reduces"].cast<bool>();
        kernel->is_message = one["is_message"].cast<bool>();
        kernel->from_any = one["from_any"].cast<bool>();
        kernel->telling = one["telling"].cast<std::vector<size_t>>();
        library->impl(
            one["name"].cast<std::string>().c_str(),
            torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
    }
}

// Know nothing any more, as a child that was forked, whose groups have no numbers yet.
void forget() {
    if (!shared) return;
    shared->groups.clear();
    shared->called.clear();
}

// Let Python's kernels be what the dispatcher calls; no call may be under way.
void uninstall() {
    delete library;
    delete shared;
    library = nullptr;
    shared = nullptr;
}

} // namespace

PYBIND11_MODULE(_dispatch, module) {
    module.attr("torch") = TORCH_VERSION;
    module.def("install", &install, py::kw_only(), py::arg("calls"), py::arg("functions"),
               py::arg("operations"));
    module.def("forget", &forget);
    module.def("uninstall", &uninstall);
}
