# C types of log.py. StreamLog is a class as any: tests put themselves in front of its methods.
cimport cython
from queues.stream.chunk cimport Chunk

@cython.final
@cython.no_gc
cdef class Stored:
    cdef readonly unsigned long long first
    cdef readonly long long time
    cdef readonly Chunk chunk

    cpdef Stored apart(self)

@cython.locals(stored=Stored)
cdef Stored _make_stored(unsigned long long first, long long time, Chunk chunk)
