cimport cython
from amqp_broker.octets.buffer cimport get_u16, get_u32, get_u64

cdef Py_ssize_t _RECORD_BYTES, _EXPIRES_AT, _SEGMENT, _RETURNS, _REDELIVERED
cdef int _PERSISTENT

@cython.final
cdef class PlainPage:
    cdef readonly list runs
    cdef readonly list segments
    cdef readonly bint is_in_journal
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t persistent_count

@cython.locals(found=PlainPage, octets="const unsigned char*", position=Py_ssize_t, size=Py_ssize_t,
               first="unsigned long long", after="unsigned long long", sequence="unsigned long long",
               named="unsigned int", segment="unsigned int")
cpdef PlainPage look(bytes data, Py_ssize_t start, Py_ssize_t end)
