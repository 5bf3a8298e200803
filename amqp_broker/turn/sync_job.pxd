# C types of sync_job.py.
from storage.journal cimport Batch, Journal

cdef class SyncJob:
    cdef readonly long long position
    cdef readonly double seconds
    cdef readonly Py_ssize_t journal_bytes
    cdef readonly Batch batch
    cdef readonly object pages
    cdef Journal _journal
    cdef bint _are_pages_synced

    cpdef bint is_within(self, Py_ssize_t most_bytes) except -1
    cpdef void run(self) except *
    cpdef void took(self, double seconds) except *
    cpdef void finish(self) except *
