cimport cython
from amqp_broker.links.peer_frames cimport PeerFrames
from amqp_broker.server.peer_socket cimport PeerSocket

cdef Py_ssize_t _JOIN_BYTES

@cython.final
cdef class PeerLink:
    cdef readonly str dialled
    cdef readonly bint is_lost
    cdef readonly bint is_open
    cdef readonly bint is_admitted
    cdef public bint is_candidate
    cdef public long silent_ticks
    cdef public bint has_sent
    cdef readonly object settled
    cdef object _owner
    cdef object _callbacks
    cdef object _loop
    cdef Py_ssize_t _buffer_limit
    cdef readonly PeerSocket _socket
    cdef str _address
    cdef readonly object _tls
    cdef object _protocol
    cdef str _peer
    cdef PeerFrames _frames
    cdef object _deadline
    cdef bint _has_heard

    cpdef void data_received(self, bytes data) except *
    cdef void _handle(self, bytes data) except *
    cpdef void eof_received(self) except *
    cpdef void connection_lost(self, object error) except *
    @cython.locals(frames=PeerFrames, payloads=list, payload=bytes)
    cdef void _receive(self, bytes data) except *
    @cython.locals(link=PeerSocket, frames=PeerFrames, pieces=list, piece=bytes, size=Py_ssize_t, unsent=Py_ssize_t,
                   limit=Py_ssize_t)
    cpdef void send(self, list payloads) except *
