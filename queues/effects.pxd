cimport cython
from queues.message cimport Message

@cython.final
cdef class Delivered:
    cdef public unsigned long long consumer
    cdef public unsigned long long delivery_id
    cdef public Message message
    cdef public bint redelivered
    cdef public unsigned int delivery_count

@cython.locals(effect=Delivered)
cpdef Delivered make_delivered(unsigned long long consumer, unsigned long long delivery_id, Message message,
                               bint redelivered, unsigned int delivery_count)
