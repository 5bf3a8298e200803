cdef class Receipt:
    cpdef void expect(self) except *
    cpdef void complete(self, object refusal) except *
    cpdef unsigned long long at_hand(self) except? 0
    cpdef void complete_run(self, object refusal, unsigned long long first, unsigned long long last) except *

cdef class JointReceipt(Receipt):
    cdef public Py_ssize_t waiting
    cdef public list refusals
    cdef object _then
