cimport cython

@cython.final
cdef class DeadLetters:
    cdef object _broker
    cdef object _deaths
    cdef Py_ssize_t _backlog
    cdef public bint is_behind
    cdef public long long cycles_dropped
