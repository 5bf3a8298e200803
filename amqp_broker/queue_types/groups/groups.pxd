cimport cython
from amqp_broker.queue_types.groups.group cimport QueueGroup
from amqp_broker.turn.clock cimport TurnClock
from raft.host cimport RaftHost

cdef class QuorumGroups:
    cdef object _config
    cdef RaftHost _raft
    cdef dict _linked
    cdef object _send_batch
    cdef object _transfers
    cdef object _host
    cdef object _metadata
    cdef public TurnClock clock
    cdef readonly object is_ready
    cdef readonly object is_alone
    cdef readonly dict all
    cdef readonly list pagers
    cdef readonly bint is_active
    cdef readonly bint is_busy
    cdef readonly bint has_lists
    cdef readonly object places
    cdef long long _lists_seen
    cdef readonly object send_request
    cdef readonly object send_answer
    cdef readonly long long synced_position
    cdef readonly object timings
    cdef bint _is_leaving
    cdef readonly long long meets_until
    cdef long long _asked_at
    cdef dict _changed
    cdef dict _touched
    cdef dict _served
    cdef dict _unsynced
    cdef dict _filled
    cdef dict _gathering
    cdef readonly long long input_until
    cdef dict _deadlines
    cdef dict _behind
    cdef long long _backlog_limit

    cpdef bint is_linked(self, str name) except -1
    @cython.locals(unsynced=dict, group=QueueGroup)
    cpdef void synced(self, long long position) except *
    @cython.locals(due="long long", group=QueueGroup)
    cpdef void tick(self, long long now) except *
    @cython.locals(group=QueueGroup)
    cpdef void absorb(self, long long now) except *
    cpdef int touch(self, long long group_id) except -1
    cpdef int touch_when_synced(self, long long group_id) except -1
    cpdef int touch_in_next_turn(self, long long group_id) except -1
    cpdef void input_goes_on(self, bint is_more, long long now) except *
    cpdef int served(self, long long group_id) except -1
    cpdef bint send_batch(self, str leader, long long group_id, bytes batch) except -1
    @cython.locals(group=QueueGroup)
    cpdef void work(self, long long now) except *
    cpdef void record_change(self) except *
    @cython.locals(served=dict, group=QueueGroup, due="long long")
    cpdef void end_turn(self, long long position) except *
    @cython.locals(deadline="long long", due="long long")
    cpdef long long next_deadline(self) except -1
