from queues.consumer cimport Consumer
from queues.message cimport Delivery, Message
from queues.sums cimport QueueSums
from queues.write_group cimport WriteGroup

cdef class Queue:
    cdef public bint is_durable
    cdef public bint is_deleted
    cdef public unsigned long long queue_id
    cdef public bint counts_returns
    cdef public bint had_consumers
    cdef public str name
    cdef public object settings
    cdef public object declaration
    cdef public long long last_used
    cdef public long long fetched
    cdef public long long fetched_no_ack
    cdef public long long fetched_nothing
    cdef public WriteGroup writes

    cpdef int publish(self, Message message, object receipt, bint is_again, long long now) except -1
    cpdef bint refuses(self, Message message) except -1
    cpdef int credit_returned(self, Consumer consumer) except -1
    cpdef int dispatch(self, long long now) except -1
    cpdef int ack(self, Delivery delivery) except -1
    cpdef int reject(self, Delivery delivery, long long now) except -1
    cpdef int put_back(self, list deliveries, long long now) except -1
    cpdef int add_counts(self, QueueSums sums) except -1
    cpdef int add_counters(self, QueueSums sums) except -1
    cpdef int add_own_counters(self, QueueSums sums) except -1
    cpdef int note_got(self, bint is_acked) except -1
    cpdef int note_nothing_got(self) except -1
    cpdef int add_gets(self, QueueSums sums) except -1
