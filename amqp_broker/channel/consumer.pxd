cimport cython
from queues.consumer cimport Consumer
from queues.message cimport Entry, Message
from queues.pager cimport Pager
from amqp_broker.channel.channel cimport Channel
from amqp_broker.connection.connection cimport Connection
from amqp_broker.connection.output cimport Output

cdef class ChannelConsumer(Consumer):
    cdef public Channel channel
    cdef public Py_ssize_t prefetch
    cdef public Py_ssize_t unacked
    cdef public bytes prefix
    cdef public str tag
    cdef public bint is_exclusive
    cdef public bint is_cancelled
    cdef public object arguments

    @cython.locals(channel=Channel, pager=Pager, connection=Connection, output=Output)
    cpdef bint has_credit(self)
    cpdef Message redelivered(self, Entry entry)
    @cython.locals(channel=Channel, message=Message)
    cpdef void deliver(self, Entry entry) except *
    @cython.locals(channel=Channel)
    cpdef void deliver_at_once(self, Message message, bint is_redelivered) except *
