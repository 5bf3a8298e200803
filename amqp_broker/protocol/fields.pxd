# C types of fields.py. Compiled, a local named `source` is a pointer into the bytes object `data`.
cimport cython

cdef bytes _WIDTHS
cdef int _LENGTH_PREFIXED
cdef int _UNKNOWN

cdef class Table(dict):
    cdef readonly bytes raw

@cython.locals(table=Table)
cpdef Table decode_table(bytes raw, int max_depth=*, Py_ssize_t max_bytes=*)

@cython.locals(source="const unsigned char*", key_end=Py_ssize_t, value_end=Py_ssize_t, pairs=dict)
cdef dict _decode_pairs(bytes data, Py_ssize_t position, Py_ssize_t end, int depth)

@cython.locals(value_end=Py_ssize_t, items=list)
cdef list _decode_items(bytes data, Py_ssize_t position, Py_ssize_t end, int depth)

cdef unsigned int _u32(const unsigned char* source, Py_ssize_t position) noexcept

@cython.locals(source="const unsigned char*", key_end=Py_ssize_t)
cdef Py_ssize_t _key_end(bytes data, Py_ssize_t position, Py_ssize_t end) except -1

@cython.locals(source="const unsigned char*", width=int, value_end=Py_ssize_t)
cdef Py_ssize_t _value_end(bytes data, Py_ssize_t position, Py_ssize_t end) except -1

@cython.locals(source="const unsigned char*", kind=int, number="long long")
cdef object _decode_value(bytes data, Py_ssize_t position, Py_ssize_t end, int depth)

cdef object _decode_rare(bytes data, str kind, Py_ssize_t position)

@cython.locals(position=Py_ssize_t, end=Py_ssize_t, key_end=Py_ssize_t, value_end=Py_ssize_t)
cpdef list split_table(bytes raw)

@cython.locals(key_end=Py_ssize_t, value_end=Py_ssize_t)
cpdef list table_fields(bytes raw, Py_ssize_t position, Py_ssize_t end)

@cython.locals(value_end=Py_ssize_t)
cpdef list array_values(bytes raw, Py_ssize_t position, Py_ssize_t end)
