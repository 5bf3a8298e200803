cimport cython
from amqp_broker.octets.buffer cimport Buffer, get_u16, get_u32, get_u64
from amqp_broker.octets.index cimport is_same
from queues.message cimport Address, Entry, Message, make_entry, make_message

cdef int _FLAG_PERSISTENT, _FLAG_SEPARATE_BODY, _FLAG_PRIORITY
cdef Py_ssize_t _MESSAGE_FIXED, _ENTRY_FIXED, _PLACES, _LEAST_HEADER, _FRAME_OVERHEAD

@cython.final
cdef class AddressBook:
    cdef list _known

    @cython.locals(octets="const unsigned char*")
    cpdef Address find(self, bytes raw)
    @cython.locals(raw=bytes, place=Py_ssize_t)
    cdef bytes find_in(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t end)

@cython.locals(size=Py_ssize_t)
cpdef Py_ssize_t packed_size(Message message) except -1

cdef void _set_u32(unsigned char* target, unsigned long long value) noexcept
cdef void _set_u64(unsigned char* target, unsigned long long value) noexcept
@cython.locals(flags=int, priority=int, raw=bytes, content=bytes, target="unsigned char*")
cpdef int put_message(Buffer buffer, Message message) except -1

@cython.locals(data="const unsigned char*", flags=int, priority=int, expiration="long long",
               timestamp="long long", header_end=Py_ssize_t, content_length=Py_ssize_t,
               position=Py_ssize_t, address_length=Py_ssize_t, raw=bytes, content=bytes, body=list,
               body_size="unsigned long long", is_apart=bint, body_frame="unsigned long long")
cpdef Message get_message(bytes blob, Py_ssize_t start, Py_ssize_t end, AddressBook addresses)

@cython.final
cdef class Page:
    cdef public bytes data
    cdef public Py_ssize_t start
    cdef public Py_ssize_t size
    cdef public object location
    cdef public Py_ssize_t count
    cdef public Py_ssize_t live
    cdef public unsigned long long first
    cdef public unsigned long long last
    cdef public long long message_bytes
    cdef public Py_ssize_t durable_count
    cdef public long long durable_bytes
    cdef public unsigned int oldest_segment
    cdef public bint has_expiring
    cdef public bint is_recovered
    cdef public bint is_named
    cdef public bint is_repacked
    cdef public Page origin

    @cython.locals(blob=bytes, data="const unsigned char*", limit=Py_ssize_t, position=Py_ssize_t, found=list,
                   size=Py_ssize_t, end=Py_ssize_t, sequence="unsigned long long", expires_at="long long",
                   journal_segment="unsigned int", returns="unsigned int", redelivered=int, message=Message, entry=Entry)
    cpdef list entries(self, AddressBook addresses)

@cython.final
cdef class PageBuilder:
    cdef public Buffer buffer
    cdef public Py_ssize_t count
    cdef public unsigned long long first
    cdef public unsigned long long last
    cdef public long long message_bytes
    cdef public Py_ssize_t durable_count
    cdef public long long durable_bytes
    cdef public unsigned int oldest_segment
    cdef public bint has_expiring

    cdef void _reset(self)
    @cython.locals(start=Py_ssize_t)
    cpdef int add(self, Message message, unsigned long long sequence, long long expires_at,
                   unsigned int journal_segment, unsigned int returns, bint is_redelivered) except -1
    cpdef Page seal(self)
