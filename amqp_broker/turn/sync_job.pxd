# C types of sync_job.py.
cimport cython
from storage.journal cimport Batch, Journal

@cython.final
cdef class SyncJob:
    cdef readonly long long position
    cdef readonly double seconds
    cdef readonly Py_ssize_t journal_bytes
    cdef Journal _journal
    cdef Batch _batch
    cdef object _pages
    cdef bint _are_pages_synced

    cpdef bint is_within(self, Py_ssize_t most_bytes) except -1
    cpdef void run(self) except *
    cpdef void took(self, double seconds) except *
    cpdef void finish(self) except *
