cdef class DiskCounts:
    cdef readonly long long syncs
    cdef readonly double seconds
    cdef readonly long long written_bytes
    cdef readonly object journal_times

    cpdef void add(self, long long written_bytes, double seconds) except *
