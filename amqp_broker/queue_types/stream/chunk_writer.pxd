# C types of chunk_writer.py.
cimport cython
from queues.message cimport Message
from queues.queue cimport Queue
from queues.stream.append_chunk cimport make_append
from queues.stream.chunk cimport Chunk, ChunkBuilder
from queues.write_group cimport WriteGroup
from amqp_broker.queue_types.groups.group cimport QueueGroup
from queues.receipts cimport Receipt

cdef Py_ssize_t _CHUNK_BYTES, _FLAGS_AT
cdef int _HAS_HEADERS, _TAKEN

cdef class _ChunkReceipt(Receipt):
    cdef readonly list runs

    cpdef void expect(self) except *
    @cython.locals(runs=list, receipt=Receipt, place=Py_ssize_t)
    cpdef void complete(self, object refusal) except *

@cython.locals(receipt=_ChunkReceipt)
cdef _ChunkReceipt _make_receipt(list runs)

cdef class ChunkWriter(WriteGroup):
    cdef Queue _queue
    cdef object _stream
    cdef bint _is_prepared
    cdef QueueGroup _group
    cdef ChunkBuilder _builder
    cdef list _runs
    cdef Receipt _receipt
    cdef unsigned long long _first
    cdef unsigned long long _last
    cdef Py_ssize_t _octets

    cpdef int publish(self, Message message, list queues, object receipt, bint is_again, long long now) except -1
    @cython.locals(builder=ChunkBuilder, content=bytes, has_headers=int, octets=Py_ssize_t, waiting=Receipt,
                   number="unsigned long long")
    cpdef int put(self, Message message, object receipt, bint is_again) except -1
    cdef Py_ssize_t _add_with_headers(self, Message message) except -1
    @cython.locals(runs=list, first=object)
    cdef int _end_run(self) except -1
    @cython.locals(receipt=Receipt, chunk=Chunk, queue=Queue)
    cpdef void seal(self) except *
