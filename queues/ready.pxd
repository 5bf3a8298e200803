cimport cython
from queues.message cimport Entry, Message, make_entry
from queues.page cimport Page, PageBuilder
from queues.pager cimport Pager

cdef object _NOTHING

cdef class Ready:
    cdef public Py_ssize_t count
    cdef public long long message_bytes
    cdef public Pager pager
    cdef public unsigned long long queue_id
    cdef public object head
    cdef public long long head_size
    cdef public object stragglers
    cdef public long long stragglers_size
    cdef public object pages
    cdef public PageBuilder tail

    @cython.locals(pager=Pager, tail=PageBuilder, before=Py_ssize_t)
    cpdef void push(self, Message message, unsigned long long sequence, long long expires_at,
                    unsigned int journal_segment) except *
    @cython.locals(page=Page, pager=Pager)
    cpdef bint leave_segment(self, unsigned int segment, long long most_bytes) except -1
    cpdef list relying(self, unsigned int segment)
    @cython.locals(page=Page)
    cdef int _seal(self) except -1
    @cython.locals(entry=Entry, size="long long")
    cpdef Entry pop(self)
    cpdef Entry peek(self)
    @cython.locals(entry=Entry)
    cpdef long long first_expiry(self) except -1
    @cython.locals(pager=Pager, page=Page, entries=list, entry=Entry)
    cdef bint _refill(self) except -1
    @cython.locals(page=Page, size=Py_ssize_t)
    cpdef Page first_page(self, Py_ssize_t most, long long max_bytes)
    @cython.locals(page=Page)
    cpdef Page take_first_page(self)
    @cython.locals(pager=Pager, entries=list, entry=Entry)
    cdef list _unpack(self, Page page)
    @cython.locals(entry=Entry)
    cpdef void put_back(self, list entries) except *
