cdef class Receipt:
    cpdef void expect(self) except *
    cpdef void complete(self, object refusal) except *
    cpdef void close(self) except *

cdef class JointReceipt(Receipt):
    cdef public Py_ssize_t waiting
    cdef public list refusals
    cdef object _then
