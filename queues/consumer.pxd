from queues.message cimport Delivery, Message

cdef class Consumer:
    cdef public object queue
    cdef public bint no_ack
    cdef public bint is_waiting
    cdef public int priority
    cdef public Consumer line_before
    cdef public Consumer line_after
    cdef public int credit

    cpdef bint has_credit(self) except -1
    cpdef Message redelivered(self, Delivery delivery)
    cpdef bint deliver(self, Delivery delivery) except -1
    cpdef bint deliver_record(self, Delivery delivery, bytes octets, Py_ssize_t place,
                              unsigned long long offset, bytes more) except -1
    cpdef void deliver_at_once(self, Message message, bint is_redelivered) except *
