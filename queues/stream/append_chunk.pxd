# C types of append_chunk.py.
cimport cython
from amqp_broker.octets.buffer cimport Buffer
from queues.stream.chunk cimport Chunk
from queues.wire.reader cimport Reader

@cython.final
@cython.no_gc
cdef class AppendChunk:
    cdef readonly unsigned long long queue_id
    cdef readonly bytes chunk
    cdef readonly object place
    cdef readonly Chunk read

    cpdef AppendChunk placed(self, object place)

@cython.locals(command=AppendChunk)
cpdef AppendChunk make_append(unsigned long long queue_id, Chunk chunk)
cpdef int put_append(Buffer buffer, AppendChunk command) except -1
@cython.locals(queue_id="unsigned long long", octets=bytes, chunk=Chunk)
cpdef AppendChunk get_append(Reader reader)
