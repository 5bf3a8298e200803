cimport cython
from amqp_broker.links.tenants cimport Tenants
from amqp_broker.turn.clock cimport TurnClock
from queues.store cimport MessageStore
from raft.host cimport RaftHost
from raft.outbox cimport Outbox
from storage.journal cimport Journal

cdef class Replication:
    cdef object _config
    cdef object _groups
    cdef object _metadata
    cdef object _projection
    cdef object _populate
    cdef object _timers
    cdef object _random_bytes
    cdef object _take_level
    cdef list _removal_watchers
    cdef public TurnClock clock
    cdef public bint is_ready
    cdef public bint waits_for_level
    cdef long long _linking_since
    cdef public bint is_busy
    cdef public long long deadline
    cdef public RaftHost host
    cdef public object port
    cdef public object acquaintances
    cdef public dict dirty
    cdef Tenants _tenants
    cdef Outbox _outbox
    cdef object _memory
    cdef dict _raft_groups
    cdef object _send_commands
    cdef object _send_applied
    cdef public object read_index
    cdef public long long synced_position
    cdef public bint wants_sync
    cdef public object timings
    cdef double _frame_came_at
    cdef MessageStore _store
    cdef Journal _journal
    cdef dict _said
    cdef object _metadata_group
    cdef public object machine
    cdef public object stream
    cdef object _transient_queues
    cdef object _follower
    cdef object _source
    cdef dict _workers
    cdef dict _connected
    cdef dict _absent
    cdef dict _looked_after
    cdef object _leader
    cdef long long _told_members
    cdef long long _told_workers
    cdef bint _is_absorbing
    cdef bint _has_populated

    cpdef int receive_peer(self, str name, bytes frame, long long now) except -1
    @cython.locals(now="long long")
    cpdef int synced(self, long long position) except -1
    cpdef void touch(self) except *
    @cython.locals(applied="long long")
    cpdef void absorb(self, long long now) except *
    @cython.locals(to_members="long long", to_workers="long long", reached="long long")
    cdef void _tell_applied(self, long long applied) except *
    cdef void _say_applied(self, list names, long long index) except *
    @cython.locals(is_worker=bint, known="long long", reached="long long")
    cdef long long _known_to_all(self, long long applied) except -1
    cpdef int work(self, long long now) except -1
    cdef void _say_to_metadata(self, long long now) except *
    cpdef int end_turn(self, long long now) except -1
    @cython.locals(output=list)
    cpdef list take_peers(self)
    @cython.locals(deadline="long long", due="long long")
    cdef long long _next_deadline(self) except -1
    cpdef list take_early(self)
