cimport cython
from amqp_broker.server.peer_link cimport PeerLink
from amqp_broker.server.system_calls cimport drop_sent, receive_octets, send_bytes

cdef Py_ssize_t _READ_BYTES, _LONG_READ_BYTES, _PIECES

@cython.final
cdef class PeerSocket:
    cdef PeerLink link
    cdef object loop
    cdef readonly object socket
    cdef int fd
    cdef object unsent
    cdef readonly Py_ssize_t unsent_bytes
    cdef readonly bint is_closing
    cdef bint is_lost
    cdef bytearray room
    cdef Py_ssize_t read_bytes

    @cython.locals(data=bytes)
    cpdef void on_readable(self) except *
    @cython.locals(sent=Py_ssize_t)
    cpdef void on_writable(self) except *
    cpdef void _lose(self, object error) except *
    @cython.locals(sent=Py_ssize_t, total=Py_ssize_t)
    cpdef void write(self, list pieces) except *
    cpdef void close(self) except *
    cpdef void abort(self) except *
    cdef void _lose_soon(self, object error) except *
