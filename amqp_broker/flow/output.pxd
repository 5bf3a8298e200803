cimport cython
from amqp_broker.octets.buffer cimport Buffer
from queues.message cimport Message

@cython.final
cdef class Output:
    cdef public Buffer buffer
    cdef public list chunks
    cdef public Py_ssize_t chunk_bytes
    cdef bytes _head
    cdef bytes _prefix
    cdef Py_ssize_t _raw_length

    cpdef Py_ssize_t size(self)
    cpdef int put_frame(self, int kind, unsigned int channel_id, bytes payload) except -1
    cpdef int put_ack(self, unsigned int channel_id, unsigned int method_index, unsigned long long delivery_tag,
                       int bits) except -1
    @cython.locals(buffer=Buffer, start=Py_ssize_t, content=bytes, is_whole=bint)
    cpdef int put_deliver(self, const unsigned char* prefix, Py_ssize_t prefix_size, unsigned long long delivery_tag, bint is_redelivered, Message message,
                           unsigned int channel_id, Py_ssize_t frame_max) except -1
    @cython.locals(buffer=Buffer, start=Py_ssize_t)
    cpdef void put_content(self, Message message, unsigned int channel_id, Py_ssize_t frame_max) except *
    @cython.locals(buffer=Buffer, chunks=list, chunk=bytes, length=Py_ssize_t, position=Py_ssize_t, size=Py_ssize_t,
                   room="unsigned long long", remaining="unsigned long long")
    cdef int _put_body(self, Message message, unsigned int channel_id, Py_ssize_t limit) except -1
    cpdef list take(self)
