# C types of partition_writer.py.
cimport cython
from amqp_broker.queue_types.stream.queue cimport StreamQueue
from queues.message cimport Message
from queues.stream.murmur cimport partition_of
from queues.write_group cimport WriteGroup

cdef Py_ssize_t _FLAGS_AT
cdef int _HAS_HEADERS

cdef class PartitionWriter(WriteGroup):
    cdef object _parts
    cdef Py_ssize_t _last

    @cython.locals(streams=list, part=StreamQueue)
    cpdef int publish(self, Message message, list queues, object receipt, bint is_again, long long now) except -1
    @cython.locals(content=bytes, raw=bytes, key=bytes, has_headers=int)
    cdef Py_ssize_t _choose(self, Message message, object receipt, Py_ssize_t partitions) except -1
