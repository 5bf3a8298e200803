cimport cython
from amqp_broker.octets.buffer cimport Buffer
from storage.journal cimport Journal
from queues.message cimport Message
from queues.page cimport put_message
from queues.pager cimport Pager

@cython.final
cdef class MessageStore:
    cdef public Journal journal
    cdef public Pager pager
    cdef public object page_store
    cdef public long long journal_limit_bytes
    cdef public long long position
    cdef public unsigned int leaving_segment
    cdef public int leave_slice
    cdef public long long leave_bytes
    cdef public long long share_bytes
    cdef long long _leaving_bytes
    cdef public unsigned int retiring_segment
    cdef public object on_drop
    cdef public long long retiring_position
    cdef object _releasing
    cdef list _settling
    cdef dict _touched
    cdef dict _carried
    cdef dict _listed
    cdef long long _listed_bytes
    cdef readonly long long synced_position
    cdef bint _names_pages
    cdef dict _logs
    cdef list _dropping
    cdef dict _spared
    cdef object _live_elsewhere
    cdef object _is_prepared
    cdef unsigned int _preparing

    @cython.locals(buffer=Buffer)
    cpdef Py_ssize_t append_message(self, Message message, unsigned long long queue_id, unsigned long long sequence,
                                   long long expires_at, unsigned int returns) except? -1
    @cython.locals(buffer=Buffer)
    cpdef Py_ssize_t append_message_for(self, Message message, list places) except? -1
    cdef int _put_place(self, Buffer buffer, unsigned long long queue_id, unsigned long long sequence,
                         long long expires_at, unsigned int returns) except -1
    cpdef unsigned int segment(self, object queue) except? 0
    cpdef int touch(self, unsigned int segment, object queue) except -1
    cpdef int settling(self, object queue) except -1
    @cython.locals(buffer=Buffer)
    cpdef int append_settled(self, object queue, object ranges) except -1
    cpdef int end_turn(self) except -1
    cpdef void synced(self, long long position) except *
    cdef void _release_pages(self) except *
    @cython.locals(journal=Journal)
    cpdef void shorten(self) except *
    cpdef bint leaves_more(self) except -1
    @cython.locals(journal=Journal, pager=Pager, grown="long long", has_more=bint)
    cdef void _leave_some(self) except *
    cpdef object take_page_sync(self)

@cython.locals(first="unsigned long long", count="unsigned long long", sequence="unsigned long long", ranges=list)
cpdef list ranges_of(list sequences)
