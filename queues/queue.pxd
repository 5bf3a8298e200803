from queues.consumer cimport Consumer
from queues.message cimport Entry

cdef class Queue:
    cdef public bint is_durable
    cdef public bint is_proxy
    cdef public bint is_remote
    cdef public bint is_deleted
    cdef public unsigned long long queue_id
    cdef public bint counts_returns
    cdef public bint had_consumers
    cdef public str name
    cdef public object settings
    cdef public object declaration
    cdef public long long last_used

    cpdef int credit_returned(self, Consumer consumer) except -1
    cpdef int dispatch(self, long long now) except -1
    cpdef int ack(self, Entry entry) except -1
    cpdef int reject(self, Entry entry, long long now) except -1
    cpdef int put_back(self, list entries, long long now) except -1
