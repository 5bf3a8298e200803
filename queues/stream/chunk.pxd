# C types of chunk.py.
cimport cython
from amqp_broker.octets.buffer cimport Buffer, get_u32
from queues.message cimport Message
from queues.stream.record cimport check_record, filter_hash_of, next_record, put_record

cdef Py_ssize_t _LEAST_RECORD

@cython.final
cdef class ChunkBuilder:
    cdef readonly Py_ssize_t records
    cdef Py_ssize_t _filter_bytes
    cdef Buffer _buffer
    cdef list _runs
    cdef dict _values

    cpdef Py_ssize_t add(self, Message message, unsigned int key_hash, unsigned int filter_hash, int flags=*) except -1
    cpdef int produced(self, bytes producer, object sequence) except -1
    cpdef bytes seal(self)

@cython.final
cdef class Chunk:
    cdef readonly bytes octets
    cdef readonly bytes bloom
    cdef readonly list runs
    cdef readonly Py_ssize_t records
    cdef readonly bint has_holes
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end
    cdef Py_ssize_t _at

    @cython.locals(octets=bytes, at=Py_ssize_t, end=Py_ssize_t, number=Py_ssize_t)
    cpdef int check(self) except -1
    cpdef Chunk apart(self)
    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t place_of(self, Py_ssize_t number) except -2
    @cython.locals(at=Py_ssize_t, packed=bytearray)
    cpdef bytes keeping(self, object places, Py_ssize_t filter_bytes)
    @cython.locals(at=Py_ssize_t)
    cpdef object without(self, object dropped, Py_ssize_t filter_bytes)
