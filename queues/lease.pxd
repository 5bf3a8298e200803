from queues.message_log cimport MessageLog

cdef class Lease(MessageLog):
    cdef public object queue
    cdef public str name
    cdef public str incarnation
    cdef public str owner
    cdef public long long last_called
    cdef public int state
