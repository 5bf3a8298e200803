from queues.message cimport Message

cdef class WriteGroup:
    cpdef int publish(self, Message message, list queues, object receipt, bint is_again, long long now) except -1
    cpdef void seal(self) except *
