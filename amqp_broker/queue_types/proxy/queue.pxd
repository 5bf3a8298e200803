cimport cython
from queues.consumer cimport Consumer
from queues.message cimport Delivery, Message
from queues.queue cimport Queue
from queues.sums cimport QueueSums
from amqp_broker.queue_types.proxy.command_sink cimport CommandSink
from amqp_broker.queue_types.proxy.consumer cimport ProxyConsumer, ProxyDelivery

cdef object _ACK, _REQUEUE, _REJECT, _RETURN

cdef class QueueProxy(Queue):
    cdef public CommandSink sink
    cdef public bint is_prepared
    cdef public bint knows_message_ids
    cdef public bint refuses_get
    cdef public dict consumers
    cdef public QueueSums counts
    cdef list _reviving

    @cython.locals(delivery_owner=ProxyConsumer)
    cpdef int credit_returned(self, Consumer consumer) except -1
    @cython.locals(delivery_owner=ProxyConsumer)
    cpdef int dispatch(self, long long now) except -1
    cpdef int publish(self, Message message, object receipt, bint is_again, long long now) except -1
    cpdef int ack(self, Delivery delivery) except -1
    cpdef int reject(self, Delivery delivery, long long now) except -1
    @cython.locals(delivery=ProxyDelivery)
    cpdef int put_back(self, list deliveries, long long now) except -1
    @cython.locals(delivery_owner=ProxyConsumer)
    cpdef int settle_as(self, ProxyDelivery delivery, object how) except -1
