# C types of queue.py.
cimport cython
from queues.consumer cimport Consumer
from queues.message cimport Delivery, Message
from amqp_broker.queue_types.stream.log_queue cimport LogQueue
from queues.quorum.machine cimport QueueGroupMachine
from queues.sums cimport QueueSums
from amqp_broker.queue_types.groups.group cimport QueueGroup
from amqp_broker.queue_types.stream.chunk_writer cimport ChunkWriter
from amqp_broker.queue_types.stream.reader cimport StreamReader

cdef class StreamQueue(LogQueue):
    cdef public QueueGroup group
    cdef public bint is_prepared
    cdef public object wanted
    cdef public ChunkWriter writer
    cdef dict _watching
    cdef public dict followers
    cdef public QueueSums counts
    cdef public object addresses
    cdef object _find_settings
    cdef QueueGroupMachine _machine
    cdef object _background
    cdef object _raft
    cdef object _groups
    cdef object _clock
    cdef object _late
    cdef list _seeking
    cdef object _behind
    cdef bint _is_serving
    cdef bint _is_serving_behind
    cdef object _counted
    cdef public object compactor
    cdef readonly object _packer
    cdef readonly object _retainer
    cdef object _packing_room
    cdef object _mender
    cdef dict _parked
    cdef readonly object distant
    cdef bint _has_distant
    cdef dict _listeners

    cpdef int publish(self, Message message, object receipt, bint is_again, long long now) except -1
    @cython.locals(reader=StreamReader)
    cpdef int credit_returned(self, Consumer consumer) except -1
    @cython.locals(reader=StreamReader)
    cpdef object readable(self, StreamReader reader)
    cpdef void wake_readers(self) except *
    cpdef void _grown(self) except *
    cpdef void serve_later(self, StreamReader reader) except *
    cpdef bint _serve_some(self, long long now) except -1
    cpdef bint _serve_behind(self, long long now) except -1
    @cython.locals(reader=StreamReader, room=Py_ssize_t)
    cdef bint _serve_line(self, object line, long long now, bint is_behind) except -1
    cdef bint _is_far(self, StreamReader reader) except -1
    cpdef int ack(self, Delivery delivery) except -1
