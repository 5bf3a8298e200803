cdef class DiskCounts:
    cdef readonly long long syncs
    cdef readonly double seconds
    cdef readonly long long written_bytes

    cpdef void add(self, long long written_bytes, double seconds) except *
