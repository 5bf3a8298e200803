# C types of placement.py. ChunkPlacer is a class as any: tests put themselves in front of its methods.
cimport cython
from amqp_broker.octets.buffer cimport get_u32

cdef Py_ssize_t _BEFORE_ORIGIN_BYTES, _BEHIND_ORIGIN_BYTES, _COMMAND_BYTES, _STREAM_BYTES
cdef int _APPEND_CHUNK

@cython.locals(octets="const unsigned char*", size=Py_ssize_t, at=Py_ssize_t, least=Py_ssize_t, length=Py_ssize_t)
cpdef bint has_chunk_of(bytes data, Py_ssize_t least_bytes) except -1
