cimport cython
from queues.classic cimport ClassicQueue
from queues.consumer cimport Consumer
from queues.message cimport Message
from queues.queue cimport Queue
from queues.store cimport MessageStore

cdef int _ACCEPTED, _STORED, _REJECTED

@cython.final
cdef class VHost:
    cdef public str name
    cdef public MessageStore store
    cdef public long long generation
    cdef public long long forgotten
    cdef public dict queues
    cdef public object router
    cdef public list dead_letters
    cdef public dict delayed
    cdef public Py_ssize_t connections
    cdef public object look
    cdef public object next_look
    cdef Py_ssize_t _max_routes
    cdef dict _tables
    cdef Py_ssize_t _route_count
    cdef dict _shared
    cdef dict _shared_from
    cdef dict _shared_with

    cpdef void changed(self)
    @cython.locals(expires_at="long long", taker=Consumer, segment="unsigned int", store=MessageStore)
    cdef int publish_to(self, Message message, ClassicQueue queue, long long now) except -1
    @cython.locals(first=Queue)
    cpdef int publish(self, Message message, list queues, long long now, object receipt=*,
                      bint is_again=*) except -1
    @cython.locals(outcome=int, each=Queue, queue=ClassicQueue, segment="unsigned int", accepting=list, refusing=list,
                   places=list)
    cdef int _publish_to_many(self, Message message, list queues, long long now, object receipt, bint is_again) except -1
