cimport cython
from amqp_broker.octets.buffer cimport Buffer
from queues.message cimport Message
from queues.page cimport AddressBook, get_message, put_message
from queues.wire.reader cimport Reader

cdef Py_ssize_t _MESSAGE_FIXED
cdef int _SEPARATE, _PRIORITY
cdef tuple _HOWS

@cython.final
cdef class Enqueue:
    cdef public tuple queue_ids
    cdef public Message message
    cdef public bytes producer
    cdef public unsigned long long producer_sequence
    cdef public bytes message_id

@cython.final
cdef class Settle:
    cdef public unsigned long long consumer
    cdef public object how
    cdef public tuple ranges

@cython.locals(queue_id="unsigned long long")
cpdef int put_enqueue(Buffer buffer, Enqueue command) except -1
@cython.locals(first="unsigned long long", last="unsigned long long")
cpdef int put_settle(Buffer buffer, Settle command) except -1
@cython.locals(start=Py_ssize_t, end=Py_ssize_t, blob=bytes, data="const unsigned char*", flags=int,
               address=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t, message=Message)
cpdef Message read_message(Reader reader, AddressBook addresses)
cdef Py_ssize_t _chunks_size(Reader reader, Message message) except -1
@cython.locals(count=int, command=Enqueue)
cpdef Enqueue get_enqueue(Reader reader, AddressBook addresses)
@cython.locals(how=int, first="unsigned long long", last="unsigned long long", ranges=list, command=Settle)
cpdef Settle get_settle(Reader reader)
