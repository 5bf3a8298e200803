cimport cython
from amqp_broker.queue_types.proxy.command_sink cimport CommandSink
from amqp_broker.queue_types.groups.groups cimport QuorumGroups
from queues.pager cimport Pager
from queues.quorum.machine cimport QueueGroupMachine
from queues.quorum.session cimport Outcome, OwnStream
from queues.receipts cimport Receipt
from amqp_broker.turn.clock cimport TurnClock
from raft.group cimport Group
from queues.write_group cimport WriteGroup
from storage.journal cimport Journal
from raft.member_state cimport MemberState

cdef long long _RESEND_MS, _REST_MS, _NEVER
cdef Py_ssize_t _MOST_FILLING, _MOST_FILLED_BYTES, _SMALL_CHUNK_BYTES, _MOST_GATHERED
cdef long long _GATHER_MS

cdef class QueueGroup(CommandSink):
    cdef dict __dict__  # tests put themselves in front of methods
    cdef public long long group_id
    cdef public TurnClock clock
    cdef public dict queues
    cdef public Pager pager
    cdef public QueueGroupMachine machine
    cdef public Group raft
    cdef MemberState _member
    cdef public OwnStream stream
    cdef readonly str own_node
    cdef object _places
    cdef public object letters
    cdef public object host
    cdef object _background
    cdef Journal _journal
    cdef public object timers
    cdef object _metadata
    cdef object _discard
    cdef object _discards
    cdef public object guest
    cdef object _leaving
    cdef object _steps
    cdef long long _left_term
    cdef long long _left_at
    cdef public object feeds
    cdef object _damaged
    cdef object _coming
    cdef bint _goes_on
    cdef dict _serving
    cdef QuorumGroups _groups
    cdef long long _node_down_ms
    cdef long long _role_changes
    cdef long long _leads_from
    cdef long long _led_term
    cdef bint _is_session_closed
    cdef bint _is_waiting
    cdef long long _progress_at
    cdef long long _rests_until
    cdef long long _rested_from
    cdef long long _rested_until
    cdef dict _gone
    cdef dict _downed
    cdef long long _ticked
    cdef dict _unreconciled
    cdef dict _opened
    cdef dict _ended
    cdef dict _watchers
    cdef dict _growing
    cdef list _filling
    cdef readonly Py_ssize_t filled_bytes
    cdef readonly Py_ssize_t sealed
    cdef Py_ssize_t _gathered
    cdef object _timed
    cdef unsigned long long _sampled
    cdef long long _sampled_at
    cdef public double commit_ms

    cpdef Py_ssize_t backlog_bytes(self) except -1
    cpdef object submit(self, object command, object receipt=*)
    cdef object hand_in(self, object command, object receipt)
    cdef int fill(self, WriteGroup filling) except -1
    cdef int filled(self, Py_ssize_t octets) except -1
    cpdef void touch(self) except *
    cpdef void other_effect(self, object effect) except *
    cpdef bint synced(self, long long position) except -1
    cpdef bint written(self, long long position) except -1
    cdef bint _awaits_disk(self) except -1
    @cython.locals(machine=QueueGroupMachine, effects=list)
    cpdef void absorb(self, long long now) except *
    @cython.locals(outcomes=list, outcome=Outcome, receipt=Receipt, before=Py_ssize_t)
    cpdef void absorb_effects(self, list effects, long long now) except *
    @cython.locals(batches=list, filling=list, each=WriteGroup, member=MemberState)
    cpdef void end_turn(self, long long now) except *
    @cython.locals(count=Py_ssize_t)
    cdef bint _fills_on(self) except -1
    cdef bint _let_settling_rest(self, long long now) except -1
    @cython.locals(member=MemberState)
    cdef bint _send(self, object leader, bytes batch, object made, long long now) except -1
    cdef bint _propose(self, bytes batch, object made, long long now) except -1
    cdef bint _has_waited(self, long long now) except -1
    @cython.locals(commands=list)
    cdef void _do_chores(self, long long now) except *
    cdef bint _is_past(self, long long due, long long now) except -1
    @cython.locals(earliest="long long", member=MemberState)
    cpdef long long next_deadline(self) except -1
    @cython.locals(earliest="long long", member=MemberState)
    cdef long long _next_chore(self) except -1
