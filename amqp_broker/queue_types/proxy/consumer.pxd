cimport cython
from queues.consumer cimport Consumer
from queues.message cimport Delivery, Message
from queues.sums cimport QueueSums
from amqp_broker.queue_types.proxy.command_sink cimport CommandSink

cdef object _ACK
cdef int _CREDIT_REST_MS
cdef Py_ssize_t _MOST_IN_FLIGHT

@cython.final
@cython.no_gc
cdef class ProxyDelivery(Delivery):
    cdef public ProxyConsumer delivery_owner
    cdef public unsigned int epoch

@cython.final
cdef class ProxyConsumer:
    cdef public object proxy
    cdef public CommandSink sink
    cdef public Consumer consumer
    cdef QueueSums counts
    cdef public unsigned long long number
    cdef public unsigned int prefetch
    cdef public bint is_open
    cdef public bint is_ended
    cdef public bint is_released
    cdef public unsigned long long seen
    cdef public object refusal
    cdef public object waiting
    cdef public long long waiting_bytes
    cdef public unsigned long long received
    cdef public unsigned long long told
    cdef public bint is_late
    cdef public Py_ssize_t unseen
    cdef public bint is_settling
    cdef public int fetches
    cdef object _how
    cdef unsigned long long _first
    cdef unsigned long long _last
    cdef list _ranges
    cdef Py_ssize_t _unsettled
    cdef Py_ssize_t _held

    @cython.locals(delivery=ProxyDelivery, consumer=Consumer)
    cpdef void deliver(self, unsigned long long delivery_id, Message message, bint is_redelivered,
                      unsigned int returns) except *
    @cython.locals(delivery=ProxyDelivery)
    cpdef ProxyDelivery delivery(self, unsigned long long delivery_id, Message message, bint is_redelivered,
                                 unsigned int returns)
    @cython.locals(consumer=Consumer, message=Message, counts=QueueSums)
    cdef void _hand_over(self, ProxyDelivery delivery) except *
    cdef int _wait(self, ProxyDelivery delivery) except -1
    @cython.locals(consumer=Consumer, sink=CommandSink, delivery=ProxyDelivery)
    cpdef void hand_out(self) except *
    cpdef void settle(self, unsigned long long delivery_id, object how) except *
    @cython.locals(limit=Py_ssize_t)
    cdef void _limit_rest(self) except *
    cpdef void flush(self, object receipt) except *
