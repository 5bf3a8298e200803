cimport cython
from queues.message cimport Entry
from queues.pager cimport Pager
from queues.quorum.consumer cimport QuorumConsumer
from queues.effects cimport make_delivered
from queues.quorum.letters cimport Letters
from queues.quorum.queue cimport QuorumQueue, Sink
from queues.quorum.state cimport GroupState, Origin
from queues.stream.append_chunk cimport AppendChunk
from queues.stream.chunk cimport Chunk
from queues.stream.stream_end cimport StreamEnd, append_plain
from queues.wire.traffic cimport Enqueue, Settle

cdef class Execution(Sink):
    cdef public str own_node
    cdef public unsigned long long own_session
    cdef public bint is_leader
    cdef public bint has_guests
    cdef public GroupState state
    cdef public list effects
    cdef public list dropped
    cdef public list captures
    cdef public dict feeds
    cdef readonly dict listened
    cdef dict _discarding
    cdef dict _left
    cdef long long _left_count
    cdef public object on_discarding
    cdef public long long dropped_bytes
    cdef Pager _pager
    cdef list _touched
    cdef list _refused
    cdef dict _watched
    cdef list _heap
    cdef dict _handlers
    cdef dict _concerned
    cdef bint _concerns_all

    @cython.locals(state=GroupState, before="long long")
    cpdef int run(self, object batch) except -1
    cdef int _is_to_change(self, unsigned long long queue_id) except -1
    cdef int _touch(self, QuorumQueue queue) except -1
    @cython.locals(state=GroupState, touched=list, queue=QuorumQueue)
    cdef int _look_at_touched(self) except -1
    @cython.locals(origin=Origin, first="unsigned long long", sequence="unsigned long long",
                   skipped="unsigned long long", commands=list)
    cdef void _run_stream(self, object batch) except *
    @cython.locals(origin=Origin)
    cdef Origin _admit(self, object batch)
    @cython.locals(clock="long long", consumers=list, consumer=QuorumConsumer, queue=QuorumQueue)
    cdef void _close(self, Origin origin) except *
    cdef bint _is_own(self, Origin origin) except -1
    @cython.locals(clock="long long", queue=QuorumQueue, is_marked=bint)
    cdef int _enqueue(self, Origin origin, unsigned long long sequence, Enqueue command) except -1
    @cython.locals(consumer=QuorumConsumer, queue=QuorumQueue)
    cdef int _settle(self, Origin origin, unsigned long long sequence, Settle command) except -1
    @cython.locals(stream=StreamEnd, chunk=Chunk, clock="long long", has_mark=bint)
    cdef void _append(self, Origin origin, unsigned long long sequence, AppendChunk command) except *
    @cython.locals(state=GroupState, heap=list, is_due=bint, queue=QuorumQueue)
    cdef int _run_due(self, long long before) except -1
    cdef int _tell_growth(self, StreamEnd stream) except -1
    cdef int _watch(self, QuorumQueue queue) except -1
    @cython.locals(clock="long long")
    cdef int _watch_touched(self, QuorumQueue queue) except -1
    cdef int _watch_at(self, unsigned long long queue_id, long long due) except -1
    cpdef int delivered(self, QuorumConsumer consumer, unsigned long long delivery_id, Entry entry) except -1
    cpdef int lettered(self, Letters letters, Entry entry) except -1
    cpdef int discarded(self, unsigned long long queue_id, Py_ssize_t messages) except -1
    cdef int _forget_if_done(self, Origin origin, QuorumConsumer consumer) except -1
