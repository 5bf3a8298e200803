cimport cython
from octets.index cimport OctetIndex
from queues.message cimport Address

@cython.final
cdef class PublishRoute:
    cdef public object entry
    cdef public list queues
    cdef public bint has_proxies
    cdef public list homes
    cdef public bint is_plain
    cdef public long long generation

@cython.final
cdef class RouteTable:
    cdef readonly OctetIndex index
    cdef readonly list addresses
    cdef readonly list routes

    @cython.locals(raw="const unsigned char*", number=Py_ssize_t)
    cpdef int put(self, Address address, PublishRoute route) except -1
    cpdef int clear(self) except -1
