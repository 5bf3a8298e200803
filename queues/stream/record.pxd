# C types of record.py. Compiled, `prefix` and `octets` of write_record are pointers.
cimport cython
from amqp_broker.octets.buffer cimport Buffer, get_u16, get_u32, get_u64
from queues.message cimport Message, make_message
from queues.page cimport AddressBook

cdef Py_ssize_t _FIXED, _FIELD_BYTES, _PROPERTIES_OFFSET, _FRAME_OVERHEAD, _BODY_SIZE_AT
cdef int _APART, _HAS_TABLE, _CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS
cdef bytes _FIELD

@cython.locals(data="const unsigned char*", flags=int, position=Py_ssize_t)
cpdef Py_ssize_t place_of_header(bytes content, Py_ssize_t header_end) except -1
@cython.locals(raw=bytes, content=bytes, place=Py_ssize_t, table_flags=int, length=Py_ssize_t, position=Py_ssize_t,
               target="unsigned char*", source="const unsigned char*")
cpdef int put_record(Buffer buffer, Message message, unsigned int number, unsigned int key_hash,
                     unsigned int filter_hash, int flags) except -1
cpdef Py_ssize_t next_record(const unsigned char* octets, Py_ssize_t at) noexcept
cpdef unsigned int number_of(const unsigned char* octets, Py_ssize_t at) noexcept
cpdef unsigned int filter_hash_of(const unsigned char* octets, Py_ssize_t at) noexcept
@cython.locals(size=Py_ssize_t, flags=int, place=Py_ssize_t, address=Py_ssize_t, start=Py_ssize_t, content=Py_ssize_t,
               end=Py_ssize_t, exchange=Py_ssize_t, frame=Py_ssize_t, body_size="unsigned long long")
cpdef int check_record(const unsigned char* octets, Py_ssize_t at, Py_ssize_t limit) except -1
cpdef bint is_framed(const unsigned char* octets, Py_ssize_t at, unsigned long long frame_max) noexcept
cpdef unsigned long long body_size_of(const unsigned char* octets, Py_ssize_t at) noexcept
@cython.locals(size=Py_ssize_t, flags=int, place=Py_ssize_t, address=Py_ssize_t, start=Py_ssize_t,
               content_at=Py_ssize_t, end=Py_ssize_t, frame=Py_ssize_t, body_size="unsigned long long", header=bytes,
               raw=bytes, body=list, content=bytes)
cpdef Message get_record(bytes octets, Py_ssize_t at, unsigned long long offset, long long timestamp,
                         AddressBook addresses)
cdef bytes _with_offset(bytes octets, Py_ssize_t start, Py_ssize_t end, Py_ssize_t place, bint has_table,
                        object offset, bytes more)
@cython.locals(size=Py_ssize_t, flags=int, place=Py_ssize_t, address=Py_ssize_t, start=Py_ssize_t, content=Py_ssize_t,
               end=Py_ssize_t, frame=Py_ssize_t, added=Py_ssize_t, begin=Py_ssize_t, target="unsigned char*",
               position=Py_ssize_t, header_at=Py_ssize_t, source="const unsigned char*", field="const unsigned char*",
               fields=Py_ssize_t)
cpdef Py_ssize_t write_record(Buffer buffer, const unsigned char* prefix, Py_ssize_t prefix_size,
                              unsigned long long tag, const unsigned char* octets, Py_ssize_t at,
                              unsigned long long offset, unsigned int channel_id, bytes more) except -1
