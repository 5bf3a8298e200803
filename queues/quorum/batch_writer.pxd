cimport cython
from amqp_broker.octets.buffer cimport Buffer
from queues.message cimport Message
from queues.page cimport put_message

cdef int _ENQUEUE
cdef Py_ssize_t _HEAD_BYTES, _LENGTH_AT, _BEFORE_FIELDS

@cython.locals(start=Py_ssize_t, target="unsigned char*", place=int)
cpdef int put_publish_to_one(Buffer buffer, unsigned long long queue_id, Message message) except -1
