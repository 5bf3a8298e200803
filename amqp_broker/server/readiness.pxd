cimport cython

cdef extern from *:
    """
    #if defined(__linux__)
    #include <sys/epoll.h>
    #else
    /* Never called: HAS_EPOLL is false. */
    typedef union { int fd; } epoll_data_t;
    struct epoll_event { unsigned int events; epoll_data_t data; };
    static int epoll_wait(int number, struct epoll_event *events, int most, int milliseconds) { return -1; }
    #endif
    """
    ctypedef union epoll_data_t:
        int fd
    struct epoll_event:
        epoll_data_t data
    int epoll_wait(int number, epoll_event *events, int most, int milliseconds)

cdef int _MOST_AT_ONCE
cdef bint _HAS_EPOLL

cdef class Watched:
    cpdef void on_readable(self) except *

@cython.final
cdef class Readiness:
    cdef readonly bint has_more
    cdef object _loop
    cdef object _sockets
    cdef int _number
    cdef dict _watched
    cdef epoll_event[1024] _events  # MOST_AT_ONCE

    cpdef void watch(self, int number, Watched watched) except *
    cpdef void unwatch(self, int number) except *
    @cython.locals(count=int, place=int)
    cpdef void tell(self) except *
    cdef list _ready(self)
    @cython.locals(watched=Watched)
    cdef void _tell(self, int number) except *
