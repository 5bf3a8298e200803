cimport cython
from raft.following cimport Following
from raft.group cimport Group
from raft.leadership cimport Leadership
from raft.log cimport EntryLog
from raft.member_state cimport MemberState
from raft.outbox cimport Outbox

cdef double _FADED

cdef class RaftHost:
    cdef dict __dict__  # who watches a host puts a method of its own before one of its methods
    cdef public str node_id
    cdef public object settings
    cdef public dict groups
    cdef public object memory
    cdef public object failure
    cdef public bint salvages
    cdef public bint goes_on_alone
    cdef public list losses
    cdef object _port
    cdef object _random_source
    cdef dict _recovered
    cdef dict _connected
    cdef object _routes
    cdef object _slices
    cdef bint _is_routed
    cdef public dict dirty
    cdef readonly Outbox outbox
    cdef object _held
    cdef long long _synced_position
    cdef long long _written_position
    cdef long long _wanted_position
    cdef long long _disk_asked_at
    cdef double _disk_lag_ms
    cdef bint _has_time
    cdef public long long _now
    cdef public long long _clock
    cdef public long long _heartbeat_at
    cdef long long _election_at
    cdef bint _rests
    cdef long long _notice_at
    cdef long long _disk_due_at
    cdef object _encoded_append
    cdef bytes _encoded

    cpdef void receive_peer(self, str node_id, bytes frame, long long now) except *
    cdef int _dispatch(self, str node_id, object message) except -1
    @cython.locals(group=Group)
    cdef int _receive(self, str node_id, object message) except -1
    @cython.locals(group=Group, log=EntryLog)
    cpdef int synced(self, long long position, long long now) except -1
    @cython.locals(group=Group)
    cpdef int end_turn(self, long long now) except -1
    @cython.locals(member=MemberState, log=EntryLog, position="long long", leading=Leadership, following=Following)
    cdef void _end_group_turn(self, Group group, dict notices) except *
    cdef void _ask_disk(self, long long position) except *
    cdef void _advance(self, long long now) except *
    cdef int _enter(self, Group group) except -1
    @cython.locals(deadline="long long")
    cdef int _settle(self, Group group) except -1
    cdef str _process_of(self, long long group_id, str member)
    cdef str _member_at(self, long long group_id, str process)
    cdef bint _is_here(self, long long group_id) except -1
    @cython.locals(group=Group)
    cpdef int _post(self, str peer, object message) except -1
    cdef int _hold(self, str peer, bytes frame, long long position) except -1
    @cython.locals(next_at="long long")
    cpdef long long due_at(self) except -1
    cdef int _put(self, str peer, bytes frame) except -1
