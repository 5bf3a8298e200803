cimport cython

@cython.final
cdef class QueueSums:
    cdef public long long ready
    cdef public long long ready_bytes
    cdef public long long unacked
    cdef public long long delayed
    cdef public long long leased
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
    cdef public long long publishing
    cdef public long long delivering
