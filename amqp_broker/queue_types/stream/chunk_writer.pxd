# C types of chunk_writer.py.
cimport cython
from queues.message cimport Message
from queues.stream.append_chunk cimport AppendChunk
from queues.stream.chunk cimport Chunk, ChunkBuilder
from queues.write_group cimport WriteGroup
from amqp_broker.queue_types.groups.group cimport QueueGroup
from queues.receipts cimport Receipt

cdef Py_ssize_t _CHUNK_BYTES, _FLAGS_AT
cdef int _HAS_HEADERS, _TAKEN

cdef class _ChunkReceipt(Receipt):
    cdef readonly list receipts

    cpdef void expect(self) except *
    @cython.locals(receipt=Receipt)
    cpdef void complete(self, object refusal) except *

cdef class ChunkWriter(WriteGroup):
    cdef object _queue
    cdef QueueGroup _group
    cdef ChunkBuilder _builder
    cdef list _receipts
    cdef Receipt _last
    cdef Py_ssize_t _octets

    cpdef int publish(self, Message message, list queues, object receipt, bint is_again, long long now) except -1
    @cython.locals(builder=ChunkBuilder, content=bytes, has_headers=int, octets=Py_ssize_t, waiting=Receipt)
    cpdef int put(self, Message message, object receipt, bint is_again) except -1
    cdef Py_ssize_t _add_with_headers(self, Message message) except -1
    @cython.locals(receipt=Receipt, chunk=Chunk)
    cpdef void seal(self) except *
