// Calls compiled kernels of the kernel language from Python: checks arguments, packs them, runs the range on the thread pool.
//
// The one part that knows Python's ABI: the stable one of 3.11, so that one build serves every later version. A launcher is
// a built-in function: nothing is looked up and no argument is boxed on the way to the kernel.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pool.h"

namespace {

constexpr int MOST_ARRAYS = 64, MOST_DIMENSIONS = 4;

// The head of what a kernel is given; its parameters follow as the fields of a C struct.
struct Launch {
    int dim[3];
    int grain;
    void* errors;
};
struct Array {
    void* data;
    void* grad;
    long long shape[MOST_DIMENSIONS];
    long long stride[MOST_DIMENSIONS];  // in bytes
};

enum Kind { REAL, INTEGER, BOOLEAN, BYTES, ARRAY, ADDRESS };

struct Parameter {
    Kind kind;
    char type;       // f, i, u, b
    int size;        // bytes of a scalar
    size_t offset;   // in the block
    int ndim, scalars;
    bool contiguous, written;
    bool own;  // each thread touches only the element of its own index
};

struct Plan {
    gk::Run entry;
    int grain;
    void* errors;
    size_t size;
    std::vector<Parameter> parameters;
    PyMethodDef launch, grad;
};

gk::Parallel parallel = nullptr;
PyObject* misfit = nullptr;  // the exception for an argument that does not fit

// ---- errors

std::string name_of(char type, int size) {
    if (type == 'b') return size == 1 ? "bool" : std::to_string(size) + " bytes";
    return (type == 'f' ? "float" : type == 'i' ? "int" : "uint") + std::to_string(8 * size);
}

std::string expected_of(const Parameter& p) {
    if (p.kind != ARRAY) return p.kind == REAL ? "a number" : p.kind == BYTES ? name_of('b', p.size) : "an integer in the range of " + name_of(p.type, p.size);
    std::string shape = std::to_string(p.ndim) + "-dimensional";
    if (p.scalars > 1) shape += ", of " + std::to_string(p.scalars) + " numbers an element";
    return std::string("a ") + (p.contiguous ? "C-contiguous " : "") + (p.written ? "writeable " : "") + name_of(p.type, p.size) + " array, " + shape;
}

std::string described(const Py_buffer& b) {
    std::string text = "(";
    for (int i = 0; i < b.ndim; ++i) text += std::to_string(b.shape[i]) + (i + 1 < b.ndim ? ", " : b.ndim == 1 ? "," : "");
    text += ") of format " + std::string(b.format ? b.format : "B") + ", strides (";
    for (int i = 0; i < b.ndim; ++i) text += std::to_string(b.strides[i]) + (i + 1 < b.ndim ? ", " : "");
    return text + ")";
}

// Raises the misfit (index, expected, got), whatever has been raised before.
bool refuse(Py_ssize_t index, const std::string& expected, const std::string& got) {
    PyErr_Clear();
    if (PyObject* arguments = Py_BuildValue("(nss)", index, expected.c_str(), got.c_str())) {
        PyErr_SetObject(misfit, arguments);
        Py_DECREF(arguments);
    }
    return false;
}
std::string type_of(PyObject* value) {
    PyObject* name = PyType_GetName(Py_TYPE(value));
    PyObject* text = name ? PyUnicode_AsUTF8String(name) : nullptr;
    std::string found = text ? PyBytes_AsString(text) : "an object";
    Py_XDECREF(name);
    Py_XDECREF(text);
    return found;
}

// ---- one argument

uint16_t half_of(double value) {
    float x = (float)value;
    uint32_t b;
    std::memcpy(&b, &x, 4);
    uint32_t sign = b >> 16 & 0x8000, a = b & 0x7fffffff;
    if (a >= 0x47800000) return (uint16_t)(sign | (a > 0x7f800000 ? 0x7e00 : 0x7c00));
    if (a < 0x38800000) {  // subnormal: the sum puts its last bit where that of the half is
        float shifted, half = 0.5f;
        std::memcpy(&shifted, &a, 4);
        shifted += half;
        uint32_t c;
        std::memcpy(&c, &shifted, 4);
        return (uint16_t)(sign | (c - 0x3f000000));
    }
    return (uint16_t)(sign | (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13);
}

bool pack_real(const Parameter& p, PyObject* value, Py_ssize_t index, char* to) {
    double x = PyFloat_AsDouble(value);
    if (x == -1.0 && PyErr_Occurred()) return refuse(index, expected_of(p), type_of(value));
    if (p.size == 4) {
        float f = (float)x;
        std::memcpy(to, &f, 4);
    } else if (p.size == 8) {
        std::memcpy(to, &x, 8);
    } else {
        uint16_t h = half_of(x);
        std::memcpy(to, &h, 2);
    }
    return true;
}

bool pack_integer(const Parameter& p, PyObject* value, Py_ssize_t index, char* to) {
    PyObject* whole = PyNumber_Index(value);
    if (!whole) return refuse(index, expected_of(p), type_of(value));
    int overflow = 0;
    long long x = PyLong_AsLongLongAndOverflow(whole, &overflow);
    bool fits = !overflow;
    if (p.type == 'u' && overflow > 0) {
        x = (long long)PyLong_AsUnsignedLongLong(whole);
        fits = !PyErr_Occurred() && p.size == 8;
    } else if (p.type == 'u') {
        fits = fits && x >= 0 && (p.size == 8 || x < 1ll << 8 * p.size);
    } else if (p.size < 8) {
        fits = fits && x >= -(1ll << (8 * p.size - 1)) && x < 1ll << (8 * p.size - 1);
    }
    Py_DECREF(whole);
    if (!fits) return refuse(index, expected_of(p), "one outside of it");
    std::memcpy(to, &x, p.size);  // little-endian, as all that this is built for
    return true;
}

bool format_fits(const Py_buffer& b, const Parameter& p) {
    if (b.itemsize != p.size) return false;
    if (p.type == 'b' && p.size != 1) return true;
    const char* format = b.format ? b.format : "B";
    if (*format == '@' || *format == '=' || *format == '<') ++format;
    if (format[0] == 0 || format[1] != 0) return p.type == 'b' && p.size == 1 && *format == '?';
    const char* known = p.type == 'f' ? "efd" : p.type == 'i' ? "bhilqn" : p.type == 'u' ? "BHILQN" : "?";
    return std::strchr(known, *format) != nullptr;
}

bool take_buffer(const Parameter& p, PyObject* value, Py_ssize_t index, bool writeable, Py_buffer* b, int* held) {
    if (PyObject_GetBuffer(value, b, PyBUF_STRIDES | PyBUF_FORMAT | (writeable ? PyBUF_WRITABLE : 0)))
        return refuse(index, expected_of(p), writeable && PyObject_CheckBuffer(value) ? "a read-only one" : type_of(value));
    ++*held;
    return true;
}

// Whether the buffer has the element and the dimensions of the parameter, and C order where that is asked.
bool shape_fits(const Py_buffer& b, const Parameter& p) {
    int inner = b.ndim - p.ndim;
    if (!format_fits(b, p) || inner < 0 || (inner == 0) != (p.scalars == 1)) return false;
    Py_ssize_t count = 1, stride = p.size;
    for (int i = b.ndim - 1; i >= 0; --i) {
        if (i == p.ndim - 1 && count != p.scalars) return false;
        if ((i >= p.ndim || p.contiguous) && b.shape[i] > 1 && b.strides[i] != stride) {
            bool empty = false;
            for (int k = 0; k < b.ndim; ++k) empty |= b.shape[k] == 0;
            if (!empty) return false;
        }
        count *= b.shape[i], stride *= b.shape[i];
    }
    return p.ndim > 0 || count == p.scalars;
}

bool pack_array(const Parameter& p, PyObject* value, PyObject* grad, Py_ssize_t index, char* to, Py_buffer* buffers, int* held) {
    Py_buffer* b = buffers + *held;
    if (!take_buffer(p, value, index, p.written, b, held)) return false;
    if (!shape_fits(*b, p)) return refuse(index, expected_of(p), described(*b));
    Array a = {b->buf, nullptr, {1, 1, 1, 1}, {0, 0, 0, 0}};
    for (int i = 0; i < p.ndim; ++i) a.shape[i] = b->shape[i], a.stride[i] = b->strides[i];
    if (grad && grad != Py_None) {
        Py_buffer* g = buffers + *held;
        if (!take_buffer(p, grad, index, true, g, held)) return false;
        bool same = shape_fits(*g, p) && g->ndim == b->ndim;
        for (int i = 0; same && i < b->ndim; ++i) same = g->shape[i] == b->shape[i] && (g->strides[i] == b->strides[i] || b->shape[i] <= 1);
        if (!same) return refuse(index, "a gradient laid out as the array, " + described(*b), described(*g));
        a.grad = g->buf;
    }
    std::memcpy(to, &a, sizeof a);
    return true;
}

bool pack_bytes(const Parameter& p, PyObject* value, Py_ssize_t index, char* to, Py_buffer* buffers, int* held) {
    Py_buffer* b = buffers + *held;
    if (PyObject_GetBuffer(value, b, PyBUF_SIMPLE)) return refuse(index, expected_of(p), type_of(value));
    ++*held;
    if (b->len != p.size) return refuse(index, expected_of(p), std::to_string(b->len) + " bytes");
    std::memcpy(to, b->buf, p.size);
    return true;
}

// Where an array lies, [first, second), nothing if it is empty.
std::pair<const char*, const char*> extent(const Parameter& p, const Array& a) {
    const char *low = (const char*)a.data, *high = low + (size_t)p.scalars * p.size;
    for (int i = 0; i < p.ndim; ++i) {
        if (a.shape[i] == 0) return {nullptr, nullptr};
        (a.stride[i] < 0 ? low : high) += (a.shape[i] - 1) * a.stride[i];
    }
    return {low, high};
}

// Whether an array that is written shares memory with another one, so that what a thread finds depends on others. The same
// array may be given twice where each thread touches only its own element.
bool clash(const Parameter& p, const Array& a, const Parameter& q, const Array& b) {
    if (!p.written && !q.written) return false;
    auto [low, high] = extent(p, a);
    auto [from, to] = extent(q, b);
    if (!(low < to && from < high)) return false;
    bool same = p.own && q.own && a.data == b.data && p.ndim == q.ndim && p.size == q.size && p.scalars == q.scalars;
    for (int i = 0; same && i < p.ndim; ++i) same = a.shape[i] == b.shape[i] && a.stride[i] == b.stride[i];
    return !same;
}

bool apart(const Plan& plan, const char* block) {
    const std::vector<Parameter>& all = plan.parameters;
    for (size_t i = 1; i < all.size(); ++i)
        for (size_t k = 0; all[i].kind == ARRAY && k < i; ++k) {
            if (all[k].kind != ARRAY) continue;
            const Array& a = *(const Array*)(block + all[i].offset);
            const Array& b = *(const Array*)(block + all[k].offset);
            if (!clash(all[i], a, all[k], b)) continue;
            return refuse((Py_ssize_t)i, "memory of its own", "memory shared with argument " + std::to_string(k));
        }
    return true;
}

// ---- a launch

// Runs a range grain by grain: what a kernel sums up by grain does not depend on who runs it.
struct Job {
    gk::Run entry;
    const void* block;
    int grain;
};
void run_job(const void* job, int begin, int end) {
    const Job& j = *static_cast<const Job*>(job);
    for (int at = begin; at < end;) {
        int to = end - at < j.grain ? end : at + j.grain;
        j.entry(j.block, at, to);
        at = to;
    }
}

// The number of threads, -1 with an exception. dim receives each dimension.
long long threads_of(PyObject* given, int* dim) {
    dim[0] = dim[1] = dim[2] = 1;
    Py_ssize_t count = PyTuple_Check(given) ? PyTuple_Size(given) : 1;
    if (count < 1 || count > 3) {
        PyErr_SetString(PyExc_ValueError, "dim: expected one to three numbers of threads");
        return -1;
    }
    long long total = 1;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = PyNumber_Index(PyTuple_Check(given) ? PyTuple_GetItem(given, i) : given);
        if (!item) return -1;
        int overflow = 0;
        long long n = PyLong_AsLongLongAndOverflow(item, &overflow);
        Py_DECREF(item);
        if (overflow || n < 0 || n > INT_MAX || total * n > INT_MAX) {
            PyErr_Format(PyExc_ValueError, "dim: expected numbers whose product is from 0 to %d, got %R", INT_MAX, given);
            return -1;
        }
        dim[i] = (int)n, total *= n;
    }
    return total;
}

PyObject* run(Plan* plan, PyObject* dim, PyObject* const* values, PyObject* const* grads) {
    Launch head = {{}, plan->grain, plan->errors};
    long long n = threads_of(dim, head.dim);
    if (n < 0) return nullptr;
    alignas(16) char small[2048];
    std::unique_ptr<char[]> large(plan->size > sizeof small ? new char[plan->size] : nullptr);
    char* block = large ? large.get() : small;
    std::memcpy(block, &head, sizeof head);
    Py_buffer buffers[2 * MOST_ARRAYS];
    int held = 0;
    bool fits = true;
    Py_ssize_t index = 0;
    for (const Parameter& p : plan->parameters) {
        PyObject* value = values[index];
        char* to = block + p.offset;
        switch (p.kind) {
            case REAL: fits = pack_real(p, value, index, to); break;
            case INTEGER:
            case ADDRESS: fits = pack_integer(p, value, index, to); break;
            case BOOLEAN: {
                int truth = PyObject_IsTrue(value);
                fits = truth >= 0 || refuse(index, "True or False", type_of(value));
                *to = truth > 0;
                break;
            }
            case BYTES: fits = pack_bytes(p, value, index, to, buffers, &held); break;
            case ARRAY: fits = pack_array(p, value, grads ? grads[index] : nullptr, index, to, buffers, &held); break;
        }
        if (!fits) break;
        ++index;
    }
    fits = fits && apart(*plan, block);
    if (fits && n > 0) {
        if (n <= plan->grain) {
            plan->entry(block, 0, (int)n);
        } else {
            Job job = {plan->entry, block, plan->grain};
            Py_BEGIN_ALLOW_THREADS
            parallel(run_job, &job, (int)n, plan->grain);
            Py_END_ALLOW_THREADS
        }
    }
    for (int i = 0; i < held; ++i) PyBuffer_Release(buffers + i);
    if (!fits) return nullptr;
    Py_RETURN_NONE;
}

Plan* plan_of(PyObject* self) { return static_cast<Plan*>(PyCapsule_GetPointer(self, "geomkit.launch")); }

// launch(dim, *values)
PyObject* launch(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Plan* plan = plan_of(self);
    if (!plan) return nullptr;
    if (count != (Py_ssize_t)plan->parameters.size() + 1)
        return PyErr_Format(PyExc_TypeError, "expected dim and %zd arguments, got %zd in all", (Py_ssize_t)plan->parameters.size(), count);
    return run(plan, values[0], values + 1, nullptr);
}

// grad(dim, values, grads): tuples of one length, None where there is no gradient.
PyObject* grad(PyObject* self, PyObject* const* given, Py_ssize_t count) {
    Plan* plan = plan_of(self);
    if (!plan) return nullptr;
    Py_ssize_t n = (Py_ssize_t)plan->parameters.size();
    if (count != 3 || !PyTuple_Check(given[1]) || !PyTuple_Check(given[2]) || PyTuple_Size(given[1]) != n || PyTuple_Size(given[2]) != n)
        return PyErr_Format(PyExc_TypeError, "expected dim, a tuple of %zd arguments and one of %zd gradients", n, n);
    std::vector<PyObject*> values(n), grads(n);
    for (Py_ssize_t i = 0; i < n; ++i) values[i] = PyTuple_GetItem(given[1], i), grads[i] = PyTuple_GetItem(given[2], i);
    return run(plan, given[0], values.data(), grads.data());
}

// ---- making one

// A scalar's or element's type such as f4 or b12; false if it is none.
bool parse_type(const std::string& text, Parameter& p) {
    if (text.size() < 2 || !std::strchr("fiub", text[0])) return false;
    char* end;
    long size = std::strtol(text.c_str() + 1, &end, 10);
    p.type = text[0], p.size = (int)size;
    if (*end || size < 1 || size > 1 << 20) return false;
    return p.type == 'b' || ((size == 1 || size == 2 || size == 4 || size == 8) && (p.type != 'f' || size > 1));
}

std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    for (size_t begin = 0;;) {
        size_t end = text.find(at, begin);
        parts.push_back(text.substr(begin, end - begin));
        if (end == std::string::npos) return parts;
        begin = end + 1;
    }
}

// Reads a token and places the parameter after `offset`, which moves behind it.
bool parse(const std::string& token, size_t& offset, Parameter& p) {
    std::vector<std::string> parts = split(token, ':');
    size_t size, alignment;
    p.ndim = 0, p.scalars = 1, p.contiguous = p.written = p.own = false;
    if (token == "p") {
        p.kind = ADDRESS, p.type = 'u', p.size = 8, size = alignment = 8;
    } else if (parts[0] == "a") {
        if (parts.size() != 5 || !parse_type(parts[1], p) || parts[4].size() < 2 || parts[4].size() > 3) return false;
        p.kind = ARRAY, p.ndim = std::atoi(parts[2].c_str()), p.scalars = std::atoi(parts[3].c_str());
        p.contiguous = parts[4][0] == 'C', p.written = parts[4][1] == 'w', p.own = parts[4].size() == 3;
        if (p.ndim < 0 || p.ndim > MOST_DIMENSIONS || p.scalars < 1) return false;
        if (!std::strchr("CS", parts[4][0]) || !std::strchr("rw", parts[4][1]) || (p.own && parts[4][2] != 'o')) return false;
        size = sizeof(Array), alignment = alignof(Array);
    } else if (token == "b1") {
        p.kind = BOOLEAN, p.type = 'b', p.size = 1, size = alignment = 1;
    } else {
        if (!parse_type(parts[0], p) || parts.size() > 2 || (parts.size() == 2) != (p.type == 'b')) return false;
        p.kind = p.type == 'f' ? REAL : p.type == 'b' ? BYTES : INTEGER;
        size = p.size, alignment = p.type == 'b' ? std::atoi(parts[1].c_str()) : p.size;
        if (alignment != 1 && alignment != 2 && alignment != 4 && alignment != 8) return false;
    }
    p.offset = (offset + alignment - 1) & ~(alignment - 1);
    offset = p.offset + size;
    return true;
}

void discard(PyObject* capsule) { delete plan_of(capsule); }

// launcher(entry, signature, grain, errors) -> (launch, grad)
PyObject* make(PyObject*, PyObject* args) {
    unsigned long long entry, errors;
    const char* signature;
    int grain;
    if (!PyArg_ParseTuple(args, "KsiK", &entry, &signature, &grain, &errors)) return nullptr;
    if (grain < 1) return PyErr_Format(PyExc_ValueError, "grain: expected at least 1, got %d", grain);
    std::unique_ptr<Plan> plan(new Plan{(gk::Run)(uintptr_t)entry, grain, (void*)(uintptr_t)errors, sizeof(Launch), {}, {}, {}});
    int buffers = 0;
    for (const std::string& token : split(signature, ' ')) {
        if (token.empty()) continue;
        Parameter p;
        if (!parse(token, plan->size, p)) return PyErr_Format(PyExc_ValueError, "signature: %s is no parameter", token.c_str());
        buffers += p.kind == ARRAY || p.kind == BYTES;
        plan->parameters.push_back(p);
    }
    if (buffers > MOST_ARRAYS) return PyErr_Format(PyExc_ValueError, "signature: expected at most %d arrays, got %d", MOST_ARRAYS, buffers);
    plan->launch = {"launch", (PyCFunction)(void (*)(void))launch, METH_FASTCALL, "launch(dim, *values)"};
    plan->grad = {"grad", (PyCFunction)(void (*)(void))grad, METH_FASTCALL, "grad(dim, values, grads)"};
    Plan* raw = plan.get();
    PyObject* capsule = PyCapsule_New(raw, "geomkit.launch", discard);
    if (!capsule) return nullptr;
    plan.release();
    PyObject* first = PyCFunction_New(&raw->launch, capsule);
    PyObject* second = PyCFunction_New(&raw->grad, capsule);
    Py_DECREF(capsule);
    return first && second ? Py_BuildValue("(NN)", first, second) : nullptr;
}

// connect(address of gk_parallel, exception for misfits)
PyObject* connect(PyObject*, PyObject* args) {
    unsigned long long address;
    PyObject* exception;
    if (!PyArg_ParseTuple(args, "KO", &address, &exception)) return nullptr;
    parallel = (gk::Parallel)(uintptr_t)address;
    Py_INCREF(exception);
    Py_XDECREF(misfit);
    misfit = exception;
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"launcher", make, METH_VARARGS, "launcher(entry, signature, grain, errors) -> (launch, grad)"},
                         {"connect", connect, METH_VARARGS, "connect(parallel, misfit)"},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "geomkit_launch", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_geomkit_launch() { return PyModule_Create(&module); }
