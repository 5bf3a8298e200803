cimport cython
from amqp_broker.channel.confirms cimport Confirming
from amqp_broker.cluster.replication cimport Replication
from amqp_broker.connection.connection cimport Connection, connections_of
from amqp_broker.routing.dead_letters cimport DeadLetters
from amqp_broker.flow.clients cimport Clients
from amqp_broker.flow.pauses cimport Pauses
from amqp_broker.turn.clock cimport TurnClock
from amqp_broker.turn.disk_counts cimport DiskCounts
from amqp_broker.turn.histogram cimport Histogram
from amqp_broker.queue_types.groups.groups cimport QuorumGroups
from queues.pager cimport Pager, share_budget, take_named
from queues.store cimport MessageStore
from queues.timers cimport Timers
from storage.journal cimport Batch, Journal

cdef long long _LAZY_SYNC_MS, _LAZY_BYTES, _RELIEF_REST_MS, _MOST_LETTERS

@cython.final
cdef class Turn:
    cdef public list dirty
    cdef public list dropped
    cdef public list reading
    cdef public list leaving
    cdef public list checks
    cdef public list peers
    cdef public bint wants_sync
    cdef public object next_deadline

cdef class Node:
    cdef public object config
    cdef public object facts
    cdef public TurnClock clock
    cdef public Timers timers
    cdef public object background
    cdef object _jobs
    cdef object _behind
    cdef public MessageStore store
    cdef Journal _journal
    cdef object _raft
    cdef object _reply_consumers
    cdef Pager _pager
    cdef public object broker
    cdef public object system
    cdef public object publisher
    cdef public object control
    cdef public object alarms
    cdef public object memory
    cdef public object placement
    cdef public Pauses pauses
    cdef public Clients clients
    cdef public Confirming confirming
    cdef public object services
    cdef public object logins
    cdef public object assemblies
    cdef object _paging_out
    cdef object _consumer_timeouts
    cdef long long _next_number
    cdef long long _synced_position
    cdef long long _shortened_at
    cdef long long _publish_backlog
    cdef public object tenants
    cdef dict _frames
    cdef object _send_reply
    cdef public object transfers
    cdef public QuorumGroups groups
    cdef public Replication replication
    cdef public object remote_queues
    cdef public object steering
    cdef public object rehoming
    cdef dict _leaving
    cdef public object stream_reads
    cdef public object acquaintances
    cdef dict _links
    cdef public object leases
    cdef object _waiting_logins
    cdef public object audit
    cdef object _file_work
    cdef object _kept_totals
    cdef public object hashing
    cdef public bint serves_leases
    cdef dict _home_links
    cdef dict _home_sessions
    cdef DeadLetters _dead_letters
    cdef public object turn_share
    cdef object _resting
    cdef public object membership
    cdef object _projection
    cdef public object answers
    cdef dict _arriving
    cdef object _held_unsynced
    cdef dict _timed_answers
    cdef object _parked_answers
    cdef public object timings
    cdef public DiskCounts disk_counts
    cdef public Histogram loop_delays
    cdef public Histogram turn_times
    cdef public bint is_ready
    cdef object _lazy_at
    cdef bint _is_syncing
    cdef long long _sync_began
    cdef long long _relief_rests_until

    cpdef void input_goes_on(self, bint is_more, long long now) except *
    @cython.locals(store=MessageStore, position="long long", batch=Batch)
    cpdef object take_sync(self)
    cdef int _count_sync(self, object job) except -1
    @cython.locals(position="long long")
    cpdef void synced(self, object job, long long now) except *
    cpdef void set_time(self, long long now) except *
    cpdef list take_dirty(self)
    @cython.locals(replication=Replication, groups=QuorumGroups, dropped=list, reading=list, leaving=list, position="long long",
                   checks=list, peers=list)
    cpdef Turn end_turn(self, long long now)
    @cython.locals(store=MessageStore)
    cdef void _write(self) except *
    @cython.locals(excess="long long", rests=bint)
    cdef void _relieve(self, long long now) except *
    @cython.locals(pauses=Pauses, backlog="long long", is_behind=bint, is_on=bint, has_homes=bint,
                   is_home_behind=bint)
    cdef void _choose_readers(self) except *
    @cython.locals(unsynced="long long")
    cdef bint _wants_sync(self, long long now, long long position) except -1
    cdef object _next_deadline(self)
    cpdef list take_peers(self)
