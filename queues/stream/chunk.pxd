# C types of chunk.py.
cimport cython
from amqp_broker.octets.buffer cimport Buffer, get_u16, get_u32
from queues.message cimport Message
from queues.stream.record cimport check_record, filter_hash_of, next_record, put_record

cdef Py_ssize_t _LEAST_RECORD, _HEAD_BYTES, _RECORDS_AT
cdef bytes _NO_HEAD
cdef list _NO_RUNS

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
    @cython.locals(chunk=Chunk, packed=bytes)
    cpdef Chunk take(self)
    @cython.locals(buffer=Buffer, size=Py_ssize_t, octets=bytes, checksum="unsigned int", target="unsigned char*",
                   source="const unsigned char*", chunk=Chunk)
    cdef Chunk _plain(self)

@cython.final
@cython.no_gc
cdef class Chunk:
    cdef readonly bytes octets
    cdef readonly bytes bloom
    cdef readonly list runs
    cdef readonly Py_ssize_t records
    cdef readonly bint has_holes
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end
    cdef Py_ssize_t _at

    @cython.locals(head="const unsigned char*", version=int, flags=int, bloom=Py_ssize_t, runs=Py_ssize_t, records=Py_ssize_t,
                   packed=Py_ssize_t, checksum="unsigned int", began="unsigned int", body=Py_ssize_t)
    cpdef int _read(self, bytes octets, Py_ssize_t at, bint is_sound) except -1
    @cython.locals(octets=bytes, at=Py_ssize_t, end=Py_ssize_t, number=Py_ssize_t)
    cpdef int check(self) except -1
    cpdef Chunk apart(self)
    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t place_of(self, Py_ssize_t number) except -2
    @cython.locals(at=Py_ssize_t, packed=bytearray)
    cpdef bytes keeping(self, object places, Py_ssize_t filter_bytes)
    @cython.locals(at=Py_ssize_t)
    cpdef object without(self, object dropped, Py_ssize_t filter_bytes)
