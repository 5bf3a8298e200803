# C types of columns.py. Compiled, blobs are pointers.
cimport cython
from amqp_broker.octets.buffer cimport Buffer, get_u16, get_u32, get_u64

cdef int _HEADERS, _DELIVERY_MODE, _PRIORITY, _TIMESTAMP, _COUNT, _FIXED_BYTES, _HEAD_BYTES
cdef unsigned long long _LAST_SECOND, _OFFSET_BITS, _TIME_BITS

@cython.final
cdef class Texts:
    cdef readonly Buffer data
    cdef readonly int[::1] ends
    cdef readonly unsigned char[::1] bits
    cdef readonly Py_ssize_t nulls
    cdef readonly Py_ssize_t row
    cdef readonly Py_ssize_t length

    @cython.locals(row=Py_ssize_t)
    cdef void put(self, const unsigned char* blob, Py_ssize_t start, Py_ssize_t end) except *
    cdef void put_null(self) except *

@cython.final
cdef class Numbers:
    cdef readonly long long[::1] values
    cdef readonly unsigned char[::1] bits
    cdef readonly Py_ssize_t nulls
    cdef readonly Py_ssize_t row

    @cython.locals(row=Py_ssize_t)
    cdef void put(self, long long value) except *
    cdef void put_null(self) except *

@cython.final
cdef class Columns:
    cdef readonly Py_ssize_t rows
    cdef readonly Texts body
    cdef readonly Texts exchange
    cdef readonly Texts routing_key
    cdef readonly Numbers offset
    cdef readonly Numbers enqueued_at
    cdef readonly Numbers redelivered
    cdef readonly Numbers delivery_count
    cdef readonly Numbers delivery_mode
    cdef readonly Numbers priority
    cdef readonly Numbers timestamp
    cdef readonly list texts
    cdef readonly bint wants_properties

    @cython.locals(position=Py_ssize_t, length=Py_ssize_t)
    cdef void _fill(self, const unsigned char* blob, Py_ssize_t size) except *
    @cython.locals(length=Py_ssize_t)
    cdef Py_ssize_t _fill_address(self, const unsigned char* blob, Py_ssize_t position, Py_ssize_t size) except -1
    @cython.locals(flags="unsigned int", which=int, is_there=int)
    cdef void _fill_properties(self, const unsigned char* blob, Py_ssize_t position, Py_ssize_t end) except *
    @cython.locals(column=Texts, width=Py_ssize_t, length=Py_ssize_t)
    cdef Py_ssize_t _fill_text(
        self, const unsigned char* blob, Py_ssize_t position, Py_ssize_t end, int which, int is_there
    ) except -1
    @cython.locals(column=Numbers)
    cdef void _put_octet(self, int which, int value) except *
    cdef void _put_timestamp(self, unsigned long long seconds) except *
