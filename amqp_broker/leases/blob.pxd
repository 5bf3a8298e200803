cimport cython
from amqp_broker.octets.buffer cimport Buffer, get_u16, get_u32, get_u64
from queues.message cimport Message

cdef int _VERSION, _BODY, _PROPERTIES, _ADDRESS, _ENQUEUED_AT, _SEPARATE_BODY, _PERSISTENT, _BARE_BODY
cdef int _ALL_TAKEN, _FULL, _BEYOND
cdef Py_ssize_t _HEAD_BYTES, _FIXED, _PACKED_FIXED, _RECORD_BYTES, _PROPERTIES_AT, _FRAME_HEAD
cdef Py_ssize_t _STORED_FIXED, _BODY_SIZE_AT
cdef bytes _NO_ADDRESS

@cython.final
cdef class BlobWriter:
    cdef readonly Py_ssize_t count
    cdef readonly unsigned long long next_offset
    cdef int _columns
    cdef Py_ssize_t _limit_bytes
    cdef Py_ssize_t _limit_messages
    cdef Buffer _buffer

    cpdef Py_ssize_t room(self) except -1
    cdef bint _has_no_room(self, Py_ssize_t size) except -1
    @cython.locals(buffer=Buffer)
    cdef int _put_head(self, unsigned long long offset, unsigned long long enqueued_at, bint is_redelivered,
                       unsigned int delivery_count) except -1
    @cython.locals(columns=int, content=bytes, header_end=Py_ssize_t, raw=bytes, properties_bytes=Py_ssize_t,
                   body_bytes=Py_ssize_t, buffer=Buffer, chunk=bytes)
    cpdef bint add(self, unsigned long long offset, bint is_redelivered, unsigned int delivery_count,
                   Message message) except -1
    @cython.locals(octets="const unsigned char*", columns=int, body_size="unsigned long long", header_end=Py_ssize_t,
                   content_bytes=Py_ssize_t, address_bytes=Py_ssize_t, content=Py_ssize_t, is_separate=bint,
                   properties_bytes=Py_ssize_t, body_bytes=Py_ssize_t, buffer=Buffer, body=Py_ssize_t)
    cpdef bint add_packed(self, unsigned long long offset, bint is_redelivered, unsigned int delivery_count,
                          bytes data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(octets="const unsigned char*", position=Py_ssize_t, offset="unsigned long long", size=Py_ssize_t)
    cpdef Py_ssize_t add_records(self, unsigned long long first, bytes data, Py_ssize_t start,
                                 Py_ssize_t end) except -1
    @cython.locals(octets="const unsigned char*", position=Py_ssize_t, sequence="unsigned long long", size=Py_ssize_t,
                   packed=Py_ssize_t, is_redelivered=bint, returns="unsigned int")
    cpdef int add_ready(self, unsigned long long start_sequence, unsigned long long below, bint durable_only,
                        bytes data, Py_ssize_t start, Py_ssize_t end) except -1
    @cython.locals(octets="const unsigned char*", columns=int, flags=int, address_bytes=Py_ssize_t,
                   address=Py_ssize_t, content=Py_ssize_t, frame=Py_ssize_t, body_size="unsigned long long",
                   properties_bytes=Py_ssize_t, body_bytes=Py_ssize_t, buffer=Buffer, body=Py_ssize_t)
    cpdef bint add_stored(self, unsigned long long offset, unsigned long long time, bytes data,
                          Py_ssize_t at) except -1
    @cython.locals(octets="const unsigned char*", offset="unsigned long long")
    cpdef unsigned long long add_chunk(self, unsigned long long first, unsigned long long time, bytes data,
                                       Py_ssize_t start, Py_ssize_t end, unsigned long long low,
                                       unsigned long long high) except? 0
    @cython.locals(octets="const unsigned char*", buffer=Buffer, begin=Py_ssize_t, count=Py_ssize_t, length=Py_ssize_t)
    cdef int _put_chunks(self, bytes data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t body_bytes) except -1
    cpdef bytes take(self)

@cython.final
cdef class BlobReader:
    cdef readonly bytes data
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t index
    cdef readonly unsigned long long offset
    cdef readonly unsigned long long enqueued_at
    cdef readonly bint is_redelivered
    cdef readonly unsigned int delivery_count
    cdef readonly bytes address
    cdef readonly Py_ssize_t properties_start
    cdef readonly Py_ssize_t properties_end
    cdef readonly Py_ssize_t body_start
    cdef readonly Py_ssize_t body_end
    cdef Py_ssize_t _end
    cdef Py_ssize_t _position

    @cython.locals(octets="const unsigned char*", position=Py_ssize_t, end=Py_ssize_t, key=Py_ssize_t,
                   size=Py_ssize_t)
    cpdef bint advance(self) except -1
    cpdef bytes properties(self)
    cpdef bytes body(self)
