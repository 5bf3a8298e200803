cimport cython
from queues.message cimport Message

cdef Py_ssize_t _FLAGS_AT
cdef int _HAS_HEADERS

cdef class CommandSink:
    cdef public unsigned int epoch
    cdef public dict holders
    cdef public list settling
    cdef public dict _fetching
    cdef public object _tallying
    cdef dict __dict__

    cpdef object submit(self, object command, object receipt=*)
    @cython.locals(content=bytes)
    cpdef int publish(self, Message message, object proxies, object receipt, bint is_again=*) except -1
