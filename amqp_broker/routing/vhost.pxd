cimport cython
from amqp_broker.routing.queue_table cimport QueueTable
from amqp_broker.routing.routes cimport publish_to_groups
from queues.message cimport Message
from queues.queue cimport Queue
from queues.store cimport MessageStore

@cython.final
cdef class VHost:
    cdef public str name
    cdef public MessageStore store
    cdef public long long generation
    cdef public long long forgotten
    cdef public bint is_deleted
    cdef public QueueTable queues
    cdef public object queue_names
    cdef public object router
    cdef public list dead_letters
    cdef public dict delayed
    cdef public Py_ssize_t connections
    cdef public object taps
    cdef public object gone
    cdef public object look
    cdef public object next_look
    cdef Py_ssize_t _max_routes
    cdef dict _tables
    cdef Py_ssize_t _route_count
    cdef dict _shared
    cdef dict _shared_from
    cdef dict _shared_with
    cdef dict _by_headers
    cdef dict _filled
    cdef readonly Py_ssize_t _header_octets

    cpdef void changed(self)
    @cython.locals(first=Queue)
    cpdef int publish(self, Message message, list queues, long long now, object receipt=*,
                      bint is_again=*) except -1
