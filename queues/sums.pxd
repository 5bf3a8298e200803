cimport cython
from queues.classic cimport ClassicQueue
from queues.queue cimport Queue
from queues.ready cimport Ready

cdef int _REJECTED, _EXPIRED, _MAXLEN, _DELIVERY_LIMIT

@cython.final
cdef class QueueSums:
    cdef public long long ready
    cdef public long long ready_bytes
    cdef public long long unacked
    cdef public long long consumers
    cdef public long long published
    cdef public long long delivered
    cdef public long long auto_acked
    cdef public long long redelivered
    cdef public long long acked
    cdef public long long got
    cdef public long long got_no_ack
    cdef public long long got_nothing
    cdef public long long rejected
    cdef public long long expired
    cdef public long long too_many
    cdef public long long returned_too_often

    @cython.locals(ready=Ready)
    cpdef int add(self, ClassicQueue queue) except -1
    @cython.locals(drops=list)
    cpdef int add_gets(self, Queue queue) except -1
    cpdef int add_counters(self, ClassicQueue queue) except -1
