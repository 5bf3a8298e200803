cimport cython

@cython.final
cdef class Origin:
    cdef public str name
    cdef public unsigned long long session
    cdef public bint is_open
    cdef public unsigned long long last_sequence
    cdef public unsigned long long last_consumer
    cdef public dict consumers
    cdef public object notices
    cdef public unsigned long long next_notice

    cpdef int begin(self, unsigned long long session) except -1
    cpdef object add_notice(self, object kind, object a, object b=*, object c=*)
    cpdef int seen(self, unsigned long long sequence) except -1

@cython.final
cdef class GroupState:
    cdef public long long clock
    cdef public dict origins
    cdef public dict queues
    cdef public dict leased
    cdef public dict streams
    cdef public dict cursors

    cpdef int add(self, object queue) except -1
    cpdef int remove(self, unsigned long long queue_id) except -1
