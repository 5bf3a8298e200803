cimport cython
from queues.page cimport AddressBook, Page

cdef int _MUCH_SHIFT

@cython.final
cdef class Pager:
    cdef public object page_store
    cdef public AddressBook addresses
    cdef public long long budget_bytes
    cdef public long long tight_bytes
    cdef public long long used
    cdef public long long others_bytes
    cdef public long long assembling
    cdef public bint has_no_room
    cdef public bint has_named_pages
    cdef public list released
    cdef public Py_ssize_t page_bytes
    cdef public Py_ssize_t pages_ahead
    cdef public Py_ssize_t head_messages
    cdef public long long head_bytes
    cdef public long long large_head_bytes
    cdef public long long pages_stored
    cdef public long long pages_loaded
    cdef public long long messages_stored
    cdef public long long messages_loaded

    cpdef int assemble(self, long long octets) except -1
    cpdef void share(self, long long others_bytes) except *
    cpdef void limit(self, long long budget_bytes) except *
    @cython.locals(held="long long")
    cpdef Py_ssize_t excess(self) except? -1
    @cython.locals(budget="long long", used="long long", over="long long")
    cpdef int unacked_allowed(self) except -1
    cpdef int store(self, unsigned long long queue_id, Page page) except -1
    cpdef int drop(self, Page page) except -1
    cpdef int load(self, unsigned long long queue_id, Page page, Py_ssize_t size=*) except -1
    cpdef int load_to_unpack(self, unsigned long long queue_id, Page page) except -1
    cdef int _loaded(self, Page page, Py_ssize_t size) except -1
    @cython.locals(count=Py_ssize_t, begin=Py_ssize_t, page=Page)
    cpdef int read_ahead(self, unsigned long long queue_id, object pages) except -1
    cpdef int settle(self, unsigned long long queue_id, Page page, Py_ssize_t count=*) except -1
    cpdef int release(self, unsigned long long queue_id, Page page) except -1

@cython.locals(pager=Pager, held="long long", much="long long", elsewhere="long long")
cpdef int share_budget(list pagers) except -1
@cython.locals(pager=Pager, wants=bint)
cpdef bint take_named(list pagers) except -1
