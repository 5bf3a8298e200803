cimport cython
from amqp_broker.octets.buffer cimport Buffer, get_u32
from queues.quorum.commands cimport put_batch_head, put_command
from queues.effects cimport Delivered
from queues.stream.append_chunk cimport AppendChunk
from queues.wire.traffic cimport Enqueue, Settle

cdef Py_ssize_t _HEAD_BYTES
cdef int _STREAMS, _WITH_STREAMS

@cython.final
@cython.no_gc
cdef class Outcome:
    cdef public object token
    cdef public object refusal

@cython.final
cdef class OwnStream:
    cdef readonly str origin
    cdef readonly unsigned long long session
    cdef readonly Py_ssize_t unapplied_bytes
    cdef unsigned long long _next_consumer
    cdef Buffer _buffer
    cdef Py_ssize_t _filling
    cdef Py_ssize_t _start
    cdef list _chunks
    cdef object _batches
    cdef object _tokens
    cdef object _changes
    cdef unsigned long long _applied
    cdef Py_ssize_t _sent
    cdef bint _is_announced
    cdef dict _attached

    cpdef unsigned long long new_consumer(self)
    @cython.locals(buffer=Buffer, before=Py_ssize_t, number="unsigned long long")
    cpdef unsigned long long submit(self, object command, object token=*) except 0
    @cython.locals(buffer=Buffer)
    cdef Buffer _open_batch(self)
    @cython.locals(buffer=Buffer, octets=bytes)
    cdef unsigned long long _submitted(self, Py_ssize_t before, object token) except 0
    @cython.locals(buffer=Buffer, start=Py_ssize_t, last="unsigned long long", first="unsigned long long")
    cdef int _seal(self) except -1
    cpdef list take_batches(self)
    cpdef list take(self)
    cpdef void resend(self)
    @cython.locals(outcomes=list)
    cpdef list on_effects(self, object effects)
    @cython.locals(sequence="unsigned long long", last="unsigned long long", outcome=Outcome)
    cdef int _on_confirmed(self, object effect, list outcomes, dict ended) except -1
