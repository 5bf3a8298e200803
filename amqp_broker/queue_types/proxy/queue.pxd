cimport cython
from queues.consumer cimport Consumer
from queues.message cimport Entry
from queues.queue cimport Queue
from amqp_broker.queue_types.proxy.command_sink cimport CommandSink
from amqp_broker.queue_types.proxy.consumer cimport ProxyConsumer

cdef object _ACK, _REQUEUE, _REJECT

cdef class QueueProxy(Queue):
    cdef public CommandSink sink
    cdef public bint is_prepared
    cdef public bint knows_message_ids
    cdef public bint refuses_get
    cdef public dict consumers
    cdef list _reviving
    cdef dict __dict__

    @cython.locals(holder=ProxyConsumer)
    cpdef int credit_returned(self, Consumer consumer) except -1
    @cython.locals(holder=ProxyConsumer)
    cpdef int dispatch(self, long long now) except -1
    cpdef int ack(self, Entry entry) except -1
    cpdef int reject(self, Entry entry, long long now) except -1
    @cython.locals(entry=Entry)
    cpdef int put_back(self, list entries, long long now) except -1
    @cython.locals(holder=ProxyConsumer)
    cdef int _settle(self, Entry entry, object how) except -1
