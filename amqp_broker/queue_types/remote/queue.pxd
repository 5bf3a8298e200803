from amqp_broker.queue_types.proxy.queue cimport QueueProxy
from amqp_broker.queue_types.remote.home_link cimport HomeLink
from queues.message cimport Message

cdef class RemoteQueue(QueueProxy):
    cdef readonly HomeLink link
    cdef public str home
    cdef long long _messages
    cdef long long _unacked
    cdef long long _leased
    cdef long long _consumers

    cpdef int publish(self, Message message, object receipt, bint is_again, long long now) except -1
