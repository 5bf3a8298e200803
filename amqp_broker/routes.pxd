cimport cython
from queues.message cimport Address

@cython.final
cdef class PublishRoute:
    cdef public Address address
    cdef public object entry
    cdef public list queues
    cdef public bint has_proxies
    cdef public list homes
    cdef public bint is_plain
    cdef public long long generation
    cdef public long long unroutable
