cimport cython
from amqp_broker.octets.buffer cimport get_u16, get_u32, get_u64
from amqp_broker.channel.channel cimport Channel
from amqp_broker.flow.client cimport Client

cdef int _AWAIT_HEADER, _OPEN, _CLOSING, _ENDING, _HANDLING, _METHOD, _HEADER, _BODY, _HEARTBEAT
cdef unsigned int _BASIC_PUBLISH, _BASIC_ACK, _BASIC_REJECT, _BASIC_NACK
cdef Py_ssize_t _PARTIAL_BYTES, _SEEN_OF_ADDRESS

@cython.final
cdef class Connection(Client):
    cdef public dict channels
    cdef public Channel current
    cdef public bytes pending
    cdef public unsigned int serving
    cdef public int handshake_step
    cdef public Py_ssize_t position
    cdef public Py_ssize_t partial_left
    cdef public Channel partial_channel
    cdef public object control
    cdef public long long last_received
    cdef public long long last_sent
    cdef public long long connected_at
    cdef public bint is_abandoned
    cdef public object timer
    cdef public object transport

    cpdef list take_output(self)
    cpdef int receive_data(self, bytes data, long long now) except -1
    @cython.locals(source="const unsigned char*", consumed=Py_ssize_t)
    cpdef int receive_buffer(self, bytearray data, Py_ssize_t length, long long now) except -1
    cdef Py_ssize_t receive(self, const unsigned char* data, Py_ssize_t length, long long now) except -1
    cdef bint _receive_protocol_header(self, const unsigned char* data, Py_ssize_t length) except -1
    @cython.locals(position=Py_ssize_t, kind=int, size="unsigned int", end=Py_ssize_t, channel_id="unsigned int",
                   channel=Channel, index="unsigned int")
    cdef bint _receive_frames(self, const unsigned char* data, Py_ssize_t length) except -1
    @cython.locals(channel=Channel, end=Py_ssize_t)
    cdef void _receive_part(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t size, Py_ssize_t length) except *
    @cython.locals(channel=Channel, position=Py_ssize_t, left=Py_ssize_t, end=Py_ssize_t, is_whole=bint)
    cdef bint _receive_rest(self, const unsigned char* data, Py_ssize_t length) except -1
    cdef Channel _find_channel(self, unsigned int channel_id)
    cdef int _receive_other(self, int kind, unsigned int channel_id, const unsigned char* data,
                                 Py_ssize_t position, Py_ssize_t end) except -1

cpdef list connections_of(list clients)
