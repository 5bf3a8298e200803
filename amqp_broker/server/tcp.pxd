cimport cython
from amqp_broker.connection.connection cimport Connection
from amqp_broker.flow.pauses cimport Pauses
from amqp_broker.server.driver cimport Driver
from amqp_broker.server.readiness cimport Readiness, Watched
from amqp_broker.server.system_calls cimport drop_sent, monotonic_time, receive_into, send_bytes

cdef Py_ssize_t _NEWCOMER_READS, _PIECES, _LOW_WATER, _READ_BYTES, _LARGE_FRAME_BYTES, _LARGE_READ_BYTES, _GATED_READ_BYTES, _BULK_BYTES, _IMMEDIATE_TURN_BYTES
cdef int _MSG_PEEK, _MSG_TRUNC, _CLOSING, _ENDING, _OPEN, _OUTPUT
cdef double _LONG_S, _QUICK_S

@cython.final
cdef class TcpTransport(Watched):
    cdef Driver driver
    cdef Pauses pauses
    cdef Readiness readiness
    cdef object loop
    cdef object socket
    cdef object tls
    cdef int fd
    cdef object unsent
    cdef Py_ssize_t unsent_bytes
    cdef Py_ssize_t high_water
    cdef Py_ssize_t output_pause
    cdef bint is_reading
    cdef bint is_watched
    cdef public Py_ssize_t read_bytes
    cdef bint is_bulky
    cdef Py_ssize_t reads
    cdef bint is_late
    cdef bint is_closing
    cdef bint is_lost
    cdef bint has_ended
    cdef public Connection connection

    cdef void _wait(self) except *
    cpdef void read_now(self) except *
    @cython.locals(connection=Connection, driver=Driver, pending=bytes, count=Py_ssize_t, most=Py_ssize_t,
                   nbytes=Py_ssize_t, is_immediate=bint)
    cdef void _read(self, bint may_wait) except *
    @cython.locals(began=double, took=double)
    cdef void _read_bulk(self, Py_ssize_t count, Py_ssize_t nbytes) except *
    @cython.locals(nbytes=Py_ssize_t)
    cdef void _discard(self) except *
    @cython.locals(connection=Connection, has_to_hear=bint)
    cdef void _hear_end(self) except *
    @cython.locals(driver=Driver)
    cdef Py_ssize_t _receive(self, Py_ssize_t count, Py_ssize_t most, int flags) except -1
    @cython.locals(driver=Driver, start=Py_ssize_t, nbytes=Py_ssize_t)
    cdef Py_ssize_t _receive_records(self, object tls, Py_ssize_t count, Py_ssize_t most) except -1
    @cython.locals(driver=Driver, now="long long")
    cdef bint _handle(self, Py_ssize_t length) except -1
    @cython.locals(taken=Py_ssize_t)
    cdef void _take_seen(self, Py_ssize_t nbytes) except *
    @cython.locals(connection=Connection, sent=Py_ssize_t)
    cpdef void on_writable(self) except *
    cpdef void _lose(self) except *
    cdef void _stop_reading(self) except *
    cdef void _watch(self) except *
    cdef void _unwatch(self) except *
    @cython.locals(sent=Py_ssize_t, total=Py_ssize_t)
    cpdef void write(self, list chunks) except *
    cdef list _seal(self, object tls, list chunks)
    @cython.locals(connection=Connection, driver=Driver)
    cdef void _fill(self) except *
    cpdef void set_paused(self, bint is_paused) except *
