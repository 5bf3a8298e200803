cimport cython
from queues.lease cimport Lease
from queues.message cimport Entry, Message, make_message
from queues.moved cimport Move
from queues.moved_page cimport PlainPage, look
from queues.page cimport Page
from queues.pager cimport Pager
from queues.ready cimport Ready
from queues.store cimport MessageStore

cdef Message _lasting(Message message)

@cython.final
cdef class LeaseGroup(Lease):
    cdef unsigned int _state_segment

    @cython.locals(taken=Py_ssize_t, singles=Py_ssize_t, most=Py_ssize_t, count=Py_ssize_t,
                   before="long long", octets="long long",
                   entries=list, ready=Ready)
    cpdef Py_ssize_t take(self, Py_ssize_t max_messages, long long max_bytes, long long now) except -1
    @cython.locals(page=Page, taken=Page, plain=PlainPage, segment="unsigned int")
    cdef Py_ssize_t _take_page(self, Ready ready, Py_ssize_t most, long long max_bytes) except -1
    @cython.locals(copy=Page)
    cdef Page _copy(self, Page page)
    @cython.locals(entry=Entry, message=Message, move=Move, segment="unsigned int", touched="unsigned int",
                   store=MessageStore, pager=Pager, has_octets=bint, is_durable=bint)
    cdef int _take_in(self, list entries) except -1
    @cython.locals(entries=list, entry=Entry, move=Move, offset="unsigned long long", touched="unsigned int",
                   segment="unsigned int", store=MessageStore, has_octets=bint, octets=Py_ssize_t)
    cpdef tuple part_with(self, Py_ssize_t left)
