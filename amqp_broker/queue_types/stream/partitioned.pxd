# C types of partitioned.py.
from amqp_broker.queue_types.groups.group cimport QueueGroup
from queues.consumer cimport Consumer
from queues.message cimport Delivery, Message
from amqp_broker.queue_types.stream.log_queue cimport LogQueue
from queues.sums cimport QueueSums

cdef class PartitionedStream(LogQueue):
    cdef public object parts
    cdef object _groups
    cdef QueueGroup _own_group

    cpdef int add_counts(self, QueueSums sums) except -1
    cpdef int add_counters(self, QueueSums sums) except -1
    cpdef int add_own_counters(self, QueueSums sums) except -1
    cpdef int publish(self, Message message, object receipt, bint is_again, long long now) except -1
    cpdef int credit_returned(self, Consumer consumer) except -1
    cpdef int ack(self, Delivery delivery) except -1
