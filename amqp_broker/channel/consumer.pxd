cimport cython
from queues.consumer cimport Consumer
from queues.message cimport Delivery, Message
from queues.pager cimport Pager
from queues.stream.record cimport is_framed
from amqp_broker.channel.channel cimport Channel
from amqp_broker.flow.client cimport Client
from amqp_broker.flow.output cimport Output

cdef Py_ssize_t _OWN_BYTES

cdef class ChannelConsumer(Consumer):
    # What every delivery touches: a line of memory, and then the octets that it begins with.
    cdef public Channel channel
    cdef const unsigned char* prefix
    cdef public int prefix_size
    cdef public bint is_cancelled
    cdef unsigned char _own[72]
    cdef bytes _long
    cdef public str tag
    cdef public bint is_exclusive
    cdef public int prefetch
    cdef public object arguments

    @cython.locals(source="const unsigned char*", own="unsigned char*")
    cdef void _set_prefix(self, bytes octets)
    @cython.locals(channel=Channel, pager=Pager, connection=Client, output=Output)
    cpdef bint has_credit(self) except -1
    @cython.locals(channel=Channel)
    cpdef bint deliver_record(self, Delivery entry, bytes octets, Py_ssize_t place,
                              unsigned long long offset, bytes more) except -1
    cpdef Message redelivered(self, Delivery entry)
    @cython.locals(channel=Channel, message=Message)
    cpdef bint deliver(self, Delivery entry) except -1
    @cython.locals(channel=Channel)
    cpdef void deliver_at_once(self, Message message, bint is_redelivered) except *
