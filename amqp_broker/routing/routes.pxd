cimport cython
from amqp_broker.octets.index cimport OctetIndex
from queues.message cimport Message
from queues.queue cimport Queue
from queues.write_group cimport WriteGroup

@cython.final
cdef class HeaderRoutes:
    cdef readonly dict routes
    cdef public Py_ssize_t octets
    cdef public bint is_kept

    cpdef int clear(self) except -1

@cython.final
cdef class PublishRoute:
    cdef public object entry
    cdef public list queues
    cdef public list groups
    cdef public list elsewhere
    cdef public bint needs_receipt
    cdef public bint joins
    cdef public bint is_serial
    cdef public list pacing
    cdef public bint is_plain
    cdef public bint is_observed
    cdef public object only
    cdef public HeaderRoutes by_headers
    cdef public long long generation

    @cython.locals(first=Queue)
    cpdef int publish(self, Message message, object receipt, bint is_again, long long now) except -1

@cython.locals(outcome=int, group=WriteGroup, queues=list)
cpdef int publish_to_groups(list groups, Message message, object receipt, bint is_again, long long now) except -1

@cython.final
cdef class RouteTable:
    cdef readonly OctetIndex index
    cdef readonly list routes
    cdef readonly list only
    cdef public Py_ssize_t connections
    cdef dict _numbers

    @cython.locals(raw="const unsigned char*", number=Py_ssize_t)
    cpdef Py_ssize_t put(self, bytes address, PublishRoute route) except -1
    cdef int _note(self, bytes address, Py_ssize_t number) except -1
    @cython.locals(raw="const unsigned char*", number=Py_ssize_t)
    cpdef int drop(self, bytes address) except -1
    @cython.locals(number=Py_ssize_t)
    cpdef int drop_all(self, bytes exchange) except -1
    cpdef int clear(self) except -1
