cimport cython
from amqp_broker.octets.buffer cimport Buffer, get_u32, get_u64

cdef Py_ssize_t _LENGTH_BYTES, _SEQUENCE_BYTES, _HEADER_BYTES, _MAC_BYTES
cdef object _compare

@cython.final
cdef class FrameMac:
    cdef object inner
    cdef object outer

    @cython.locals(digest=bytes, octets="const unsigned char*")
    cpdef bytes of(self, bytes header, bytes payload)

@cython.final
cdef class PeerFrames:
    cdef public bint has_failed
    cdef readonly str peer_name
    cdef readonly Py_ssize_t limit
    cdef FrameMac sending
    cdef FrameMac receiving
    cdef unsigned long long sent
    cdef unsigned long long received
    cdef readonly bytearray pending
    cdef Py_ssize_t needed
    cdef Buffer header

    @cython.locals(pieces=list, header=Buffer, mac=FrameMac, payload=bytes, head=bytes, size=Py_ssize_t)
    cpdef list encode(self, list payloads)
    @cython.locals(payloads=list)
    cpdef list receive(self, bytes data)
    @cython.locals(octets="const unsigned char*", offset=Py_ssize_t, end=Py_ssize_t, stop=Py_ssize_t, whole=bytearray)
    cdef int _complete(self, bytes data, list payloads) except -1
    @cython.locals(mac=FrameMac, extra=Py_ssize_t, length=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, payload=bytes)
    cdef int _split(self, const unsigned char* octets, Py_ssize_t offset, Py_ssize_t end, list payloads) except -1
    @cython.locals(start=Py_ssize_t, mac_at=Py_ssize_t, header=bytes, payload=bytes, said=bytes,
                   sequence="unsigned long long")
    cdef bytes _verified(self, FrameMac mac, const unsigned char* octets, Py_ssize_t offset, Py_ssize_t stop)
