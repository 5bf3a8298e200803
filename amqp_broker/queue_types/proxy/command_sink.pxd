cimport cython
from queues.message cimport Delivery, Message
from queues.effects cimport Delivered
from queues.write_group cimport WriteGroup
from amqp_broker.queue_types.proxy.consumer cimport ProxyConsumer

cdef Py_ssize_t _FLAGS_AT
cdef int _HAS_HEADERS, _ACK_REST_MS, _TAKEN
cdef long long _HANDED_AT_ONCE, _REMADE

cdef class CommandSink(WriteGroup):
    cdef public unsigned int epoch
    cdef public int rest_ms
    cdef public dict delivery_owners
    cdef public list settling
    cdef public dict _fetching
    cdef public object _tallying
    cdef public object background
    cdef public bint may_hand_out
    cdef long long _to_hand_out
    cdef object _late
    cdef bint _is_handing_out
    cdef public long long strayed
    cdef dict _strangers

    cpdef object submit(self, object command, object receipt=*)
    cpdef void touch(self) except *
    cpdef void add_settling(self, ProxyConsumer delivery_owner) except *
    cpdef void limit_rest(self, int rest_ms) except *
    @cython.locals(settling=list, delivery_owner=ProxyConsumer)
    cpdef void flush(self, object receipt=*) except *
    cpdef void handed_out(self, Delivery delivery) except *
    cpdef void hand_out_later(self, ProxyConsumer delivery_owner) except *
    cpdef void other_effect(self, object effect) except *
    @cython.locals(delivery_owner=ProxyConsumer)
    cpdef void take_effects(self, object effects) except *
    cpdef int begin_effects(self) except -1
    cpdef int take_effect(self, object effect) except -1
    @cython.locals(content=bytes)
    cpdef int publish(self, Message message, list proxies, object receipt, bint is_again, long long now) except -1
