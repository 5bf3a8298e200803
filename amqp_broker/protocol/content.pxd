cimport cython
from amqp_broker.octets.buffer cimport get_u16, get_u32

cdef unsigned int _CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE, _PRIORITY, _CORRELATION_ID, _REPLY_TO
cdef unsigned int _EXPIRATION, _MESSAGE_ID, _TIMESTAMP, _TYPE, _USER_ID, _APP_ID, _CLUSTER_ID
cdef long long _MAX_EXPIRATION_MS, _NO_EXPIRATION, _BAD_EXPIRATION

@cython.final
cdef class ContentScanner:
    cdef public int max_depth
    cdef public bint is_persistent
    cdef public bint has_copies
    cdef public bint has_capital_longs
    cdef public bint is_special
    cdef bytes _scanned
    cdef Py_ssize_t _scanned_position
    cdef public int priority
    cdef public long long expiration
    cdef public Py_ssize_t headers_start
    cdef public Py_ssize_t headers_end
    cdef public bint has_reply_to
    cdef public bint has_user_id
    cdef public Py_ssize_t expiration_start
    cdef public Py_ssize_t expiration_end

    # -1 of an error, here and elsewhere on the way of each message: else every call asks whether there was one.
    cpdef bint scan(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end) except -1
    cpdef bytes headers_of(self, bytes content)
    @cython.locals(flags="unsigned int")
    cdef bint _scan(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end) except -1
    cdef Py_ssize_t _scan_rest(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end, unsigned int flags)
    @cython.locals(value="long long", digit=int)
    cdef long long _number(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end)
    cdef Py_ssize_t _skip_short(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end)
    @cython.locals(size=Py_ssize_t)
    cdef Py_ssize_t _scan_headers(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end)
    @cython.locals(length=Py_ssize_t, kind=int, size=Py_ssize_t)
    cdef Py_ssize_t _walk(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end, bint has_keys, int depth)
    @cython.locals(last=Py_ssize_t)
    cdef void _look_for_copies(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t length)
    cdef Py_ssize_t _width(self, int kind)
