cimport cython
from amqp_broker.connection.connection cimport Connection
from amqp_broker.node cimport Node, Turn
from amqp_broker.server.peers cimport PeerLinks
from amqp_broker.server.readiness cimport Readiness
from amqp_broker.server.spare_pace cimport SparePace
from amqp_broker.server.system_calls cimport monotonic_time
from amqp_broker.turn.histogram cimport Histogram
from amqp_broker.turn.sync_job cimport SyncJob

cdef double _CALM_S, _BULK_S, _SYNCS_S
cdef Py_ssize_t _IMMEDIATE_TURN_BYTES

@cython.final
cdef class Driver:
    cdef public Node node
    cdef public object config
    cdef public object failed
    cdef public bytearray receive_buffer
    cdef public object receive_view
    cdef public bytes received
    cdef public PeerLinks links
    cdef public object hand_over
    cdef public object after_turn
    cdef object _loop
    cdef object _call_soon
    cdef object _end
    cdef object _context
    cdef double _clock_offset
    cdef bint _turn_is_due
    cdef bint _is_queued
    cdef bint _is_over
    cdef double _turn_began_at
    cdef double _turn_ended_at
    cdef object _late
    cdef public Readiness readiness
    cdef SyncJob _job
    cdef double _syncs_until
    cdef Py_ssize_t _inline_bytes
    cdef double _inline_again_at
    cdef double _rest_s
    cdef public object room
    cdef object _syncer
    cdef object _checker
    cdef object _filer
    cdef object _timer
    cdef long long _timer_at
    cdef long long _due
    cdef object _idle
    cdef object _background
    cdef object _jobs
    cdef SparePace _spare
    cdef object _behind
    cdef public bint others_spoke
    cdef object _alarms
    cdef object _membership
    cdef Histogram _loop_delays
    cdef Histogram _turn_times
    cdef object _acquaintances
    cdef object _pace
    cdef object _timings
    cdef double _collection_began

    @cython.locals(milliseconds=double)
    cpdef long long now(self)
    cpdef void wants_turn(self) except *
    cpdef bint is_late(self) except -1
    cpdef bint is_calm(self) except -1
    cpdef void lone_input_is_over(self) except *
    cpdef void input_is_over(self, Py_ssize_t octets) except *
    cpdef void _end_due_turn(self) except *
    @cython.locals(began=double)
    cpdef void _end_turn(self, double spent_s=*) except *
    @cython.locals(connection=Connection, chunks=list)
    cdef void _write(self, list dirty) except *
    @cython.locals(turn=Turn, connection=Connection, now="long long", is_synced=bint, links=PeerLinks,
                   began=double)
    cdef bint _run_turn(self, bint may_sync) except -1
    cpdef void _revive(self, Connection connection) except *
    cpdef void writable(self, Connection connection) except *
    cpdef void lost(self, Connection connection) except *
    cdef void _wake_at(self, long long deadline, long long now) except *
    @cython.locals(now="long long")
    cpdef void _tick(self) except *
    cpdef void on_frame(self, str node_id, bytes payload) except *
    @cython.locals(began=double, ended=double)
    cdef bint _sync(self, bint may_block) except -1
