cimport cython

@cython.final
cdef class Clients:
    cdef public long long max_connections
    cdef public long long max_transports
    cdef public object numbers
    cdef public dict connections
    cdef public dict pending_handshakes
    cdef public dict closing
    cdef public dict users
    cdef public long long open_count
    cdef public long long opened
    cdef public long long closed
    cdef public long long moved
    cdef public long long channels_opened
    cdef public long long channels_closed
    cdef public object sums
    cdef public object message_sizes
    cdef public list dirty
    cdef public bint holds_back
    cdef public list held
    cdef public list dropped
    cdef public dict starved

    cpdef int add_dirty(self, client) except -1
    @cython.locals(dirty=list)
    cpdef list take_dirty(self)
    @cython.locals(dropped=list)
    cpdef list take_dropped(self)
