# C types of tail.py. Tail is what StreamLog, which is a class as any, has of them.
cimport cython
from amqp_broker.octets.buffer cimport Buffer
from queues.pager cimport Pager
from queues.stream.chunk cimport Chunk

cdef Py_ssize_t _HEAD_BYTES

@cython.final
@cython.no_gc
cdef class Stored:
    cdef readonly unsigned long long first
    cdef readonly long long time
    cdef readonly Chunk chunk

    cpdef Stored apart(self)

cdef class Tail:
    cdef public unsigned long long first
    cdef public unsigned long long next
    cdef public long long octets
    cdef public Py_ssize_t tail_bytes
    cdef public Pager _pager
    cdef public list _tail

    cpdef object seal(self)

@cython.locals(pager=Pager, first="unsigned long long", stored=Stored, added=Py_ssize_t)
cpdef unsigned long long add_chunk(Tail tail, long long time, Chunk chunk) except? 0
@cython.locals(size=Py_ssize_t, stored=Stored, buffer=Buffer, octets=bytes)
cpdef bytes tail_octets(list tail)
