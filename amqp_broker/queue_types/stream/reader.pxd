# C types of reader.py.
cimport cython
from amqp_broker.octets.buffer cimport get_u32
from queues.consumer cimport Consumer
from queues.message cimport Delivery, Message
from queues.stream.record cimport filter_hash_of, get_record, next_record
from queues.sums cimport QueueSums

cdef Py_ssize_t _MADE
cdef long long _UNPLACED
cdef long long _NEVER

cdef class StreamReader:
    cdef public long long offset
    cdef public bint is_late
    cdef public bint is_behind
    cdef public bint is_ended
    cdef public bint knows_end
    cdef readonly object queue
    cdef readonly Consumer consumer
    cdef readonly QueueSums counts
    cdef readonly object start
    cdef readonly object filter
    cdef public object ending
    cdef public long long until
    cdef public object looks_at
    cdef Delivery _copied
    cdef long long _chunk
    cdef Py_ssize_t _length
    cdef long long _record
    cdef Py_ssize_t _place

    @cython.locals(consumer=Consumer)
    cpdef Py_ssize_t serve(self, Py_ssize_t room, long long now) except? -1
    @cython.locals(consumer=Consumer, octets=bytes, start=Py_ssize_t, end=Py_ssize_t, offset="long long",
                   first="long long", behind="long long", last="long long", place=Py_ssize_t, here=Py_ssize_t, message=Message,
                   has_holes=bint)
    cpdef Py_ssize_t serve_chunk(self, object stored, Py_ssize_t room) except? -1
    @cython.locals(wanted="long long", place=Py_ssize_t)
    cpdef Py_ssize_t find(self, bytes octets, Py_ssize_t start, Py_ssize_t end, long long first) except -1

@cython.locals(delivery=Delivery)
cdef Delivery _delivery(object consumer, Message message, unsigned long long offset)
