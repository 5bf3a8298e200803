cimport cython
from amqp_broker.links.tenants cimport Tenants
from amqp_broker.queue_types.quorum.group cimport QueueGroup
from amqp_broker.turn.clock cimport TurnClock
from queues.store cimport MessageStore
from raft.host cimport RaftHost

cdef class Replication:
    cdef object _config
    cdef object _broker
    cdef object _projection
    cdef public TurnClock clock
    cdef public bint is_ready
    cdef public bint is_busy
    cdef public long long deadline
    cdef public RaftHost host
    cdef public object port
    cdef public object acquaintances
    cdef public dict dirty
    cdef Tenants _tenants
    cdef public object transfers
    cdef object _send_commands
    cdef object _send_applied
    cdef object _send_queue_batch
    cdef public object on_member_removed
    cdef public object read_index
    cdef public bint is_active
    cdef public long long synced_position
    cdef public bint wants_sync
    cdef public object timings
    cdef public bint is_leaving
    cdef long long _asked_at
    cdef double _frame_came_at
    cdef dict _touched
    cdef dict _served
    cdef dict _unsynced
    cdef dict _deadlines
    cdef MessageStore _store
    cdef dict _said
    cdef dict _behind
    cdef long long _backlog_limit
    cdef public object metadata_group
    cdef public dict queue_groups
    cdef public list pagers
    cdef public object machine
    cdef public object stream
    cdef dict _connected
    cdef dict _absent
    cdef object _leader
    cdef object _told_applied
    cdef bint _is_absorbing
    cdef bint _has_populated

    cpdef int receive_peer(self, str name, bytes frame, long long now) except -1
    @cython.locals(unsynced=dict, group=QueueGroup)
    cpdef int synced(self, long long position, long long now) except -1
    cpdef int touch(self, long long group_id) except -1
    cpdef int served(self, long long group_id) except -1
    @cython.locals(applied=object, octets=bytes, group=QueueGroup)
    cpdef void absorb(self, long long now) except *
    @cython.locals(group=QueueGroup)
    cpdef int begin_end_of_turn(self, long long now) except -1
    cdef void _say_to_metadata(self, long long now) except *
    @cython.locals(position="long long", served=dict, group=QueueGroup, due="long long", output=list)
    cpdef list end_turn(self, long long now)
    @cython.locals(deadline="long long", due="long long")
    cdef long long _next_deadline(self) except -1
    cpdef list take_output(self)
