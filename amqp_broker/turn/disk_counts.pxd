from amqp_broker.turn.histogram cimport Histogram

cdef class DiskCounts:
    cdef readonly long long syncs
    cdef readonly double seconds
    cdef readonly long long written_bytes
    cdef readonly Histogram journal_times

    cpdef void add(self, long long written_bytes, double seconds) except *
