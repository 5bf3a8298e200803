cimport cython
from amqp_broker.octets.buffer cimport Buffer, get_u16, get_u32, get_u64
from amqp_broker.flow.output cimport Output
from amqp_broker.channel.channel cimport Channel
from amqp_broker.protocol.content cimport ContentScanner
from amqp_broker.flow.readers cimport Readers
from amqp_broker.routing.vhost cimport VHost
from amqp_broker.turn.clock cimport TurnClock

cdef int _AWAIT_HEADER, _OPEN, _CLOSING, _ENDING, _CLOSED, _METHOD, _HEADER, _BODY, _HEARTBEAT
cdef unsigned int _BASIC_PUBLISH, _BASIC_ACK
cdef Py_ssize_t _PARTIAL_BYTES

@cython.final
cdef class Connection:
    cdef public object node
    cdef public TurnClock clock
    cdef public Readers readers
    cdef public object control
    cdef public object publisher
    cdef public object config
    cdef public object peer
    cdef public long long number
    cdef public int state
    cdef public Output output
    cdef public ContentScanner scanner
    cdef public VHost vhost
    cdef public dict channels
    cdef public Channel current
    cdef public Py_ssize_t frame_max
    cdef public Py_ssize_t payload_max
    cdef public Py_ssize_t output_limit
    cdef public bytes pending
    cdef public bint is_dirty
    cdef public bint is_abandoned
    cdef public bint is_writable
    cdef public bint is_starved
    cdef public object late_cancels
    cdef public object timer
    cdef public bint is_parked
    cdef public Py_ssize_t unsent_bytes
    cdef public bint is_choked
    cdef public bint is_sated
    cdef public bint is_paused
    cdef public bint has_published
    cdef public dict homes
    cdef public bint is_told_blocked
    cdef public long long last_received
    cdef public long long last_sent
    cdef public long long received_bytes
    cdef public object session
    cdef public int handshake_step
    cdef public unsigned int serving
    cdef public Py_ssize_t partial_left
    cdef public Channel partial_channel
    cdef public dict exclusive_queues
    cdef public Py_ssize_t position
    cdef public object transport

    cpdef int touch(self) except -1
    cpdef void note_homes(self, list homes) except *
    cpdef list take_output(self)
    @cython.locals(output=Output)
    cpdef bint has_room(self)
    cpdef void starve(self) except *
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
    cdef int _receive_elsewhere(self, int kind, unsigned int channel_id, const unsigned char* data,
                                 Py_ssize_t position, Py_ssize_t end) except -1
