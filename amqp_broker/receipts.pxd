cdef class Receipt:
    cpdef int expect(self) except -1
    cpdef int complete(self, object refusal) except -1

cdef class JointReceipt(Receipt):
    cdef public Py_ssize_t waiting
    cdef public list refusals
    cdef object _then
