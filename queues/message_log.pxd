cimport cython
from amqp_broker.octets.buffer cimport get_u32
from queues.message cimport Message
from queues.page cimport Page, PageBuilder
from queues.pager cimport Pager

@cython.locals(octets="const unsigned char*", count=Py_ssize_t)
cdef Py_ssize_t _skip(bytes data, Py_ssize_t position, Py_ssize_t limit, Py_ssize_t count) except -1

@cython.locals(octets="const unsigned char*", position=Py_ssize_t, size=Py_ssize_t)
cdef tuple _take(bytes data, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t most, long long max_bytes)

cdef class MessageLog:
    cdef public unsigned long long queue_id
    cdef public bint is_durable
    cdef public bint is_deleted
    cdef public unsigned int last_segment
    cdef public object store
    cdef public Pager pager
    cdef public unsigned long long trimmed
    cdef public unsigned long long next
    cdef public list pages
    cdef public PageBuilder tail
    cdef public long long page_octets
    cdef object _kept_page
    cdef object _kept
    cdef Py_ssize_t _kept_size

    @cython.locals(tail=PageBuilder, before=Py_ssize_t, size=Py_ssize_t)
    cpdef void add(self, Message message, unsigned long long sequence, long long expires_at,
                   unsigned int journal_segment, unsigned int returns, bint is_redelivered) except *
    cpdef int add_page(self, Page page) except -1
    cdef int _seal(self) except -1
    cdef int _append(self, Page page) except -1
