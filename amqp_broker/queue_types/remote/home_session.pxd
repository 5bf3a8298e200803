cimport cython
from amqp_broker.queue_types.remote.effects_codec cimport EffectsWriter
from amqp_broker.queue_types.remote.home cimport Home
from amqp_broker.turn.clock cimport TurnClock
from queues.classic cimport ClassicQueue
from queues.message cimport Delivery, Entry, Message
from queues.numbered_consumer cimport NumberedConsumer
from queues.pager cimport Pager
from queues.quorum.batch_reader cimport BatchReader
from queues.wire.traffic cimport Settle

cdef long long _LINK_WINDOW_BYTES, _CONSUMER_WINDOW_BYTES
cdef int _STORED, _REFUSED

cdef class RemoteConsumer(NumberedConsumer):
    cdef public HomeSession session
    cdef public TurnClock clock
    cdef public unsigned long long number
    cdef public str tag
    cdef public bint is_exclusive
    cdef public Py_ssize_t prefetch
    cdef public long long sent
    cdef public long long taken
    cdef public bint is_attached

    @cython.locals(session=HomeSession, pager=Pager)
    cpdef bint has_credit(self) except -1
    @cython.locals(delivery_id="unsigned long long", returns="unsigned int", session=HomeSession)
    cpdef bint deliver(self, Delivery entry) except -1
    @cython.locals(size="long long")
    cpdef unsigned long long hold(self, Entry entry) except 0
    cpdef int let_go(self) except -1

@cython.final
cdef class HomeSession:
    cdef public Home home
    cdef public Pager pager
    cdef public str peer
    cdef public unsigned long long session
    cdef public EffectsWriter writer
    cdef public dict consumers
    cdef public dict halted
    cdef object _background
    cdef public TurnClock clock
    cdef Py_ssize_t _due
    cdef public long long sent
    cdef public long long taken
    cdef public unsigned long long executed
    cdef public bint is_touched
    cdef public bint is_over
    cdef unsigned long long _confirmed_to
    cdef unsigned long long _last_consumer
    cdef list _refused
    cdef bint _has_stored
    cdef object _pending
    cdef dict _touched

    cpdef int touch(self) except -1
    @cython.locals(queue=ClassicQueue, message=Message)
    cpdef int run(self, BatchReader batch, long long now) except -1
    cdef void _execute(self, object command, long long now) except *
    cdef int _check_next(self, unsigned long long first) except -1
    cpdef int retry(self, RemoteConsumer consumer, long long now) except -1
    cdef int _revive(self, RemoteConsumer consumer) except -1
    @cython.locals(queue=ClassicQueue, touched=dict)
    cdef int _dispatch(self, long long now) except -1
    cdef int _refuse(self, object refusal) except -1
    cdef void _publish_to_many(self, list queue_ids, Message message, long long now) except *
    cdef int _note_outcome(self, int outcome) except -1
    @cython.locals(consumer=RemoteConsumer, queue=ClassicQueue, entries=list, entry=Entry)
    cdef int _settle(self, Settle command, long long now) except -1
    cdef int _leave(self, RemoteConsumer consumer, long long now) except -1
    cpdef int forget_if_done(self, RemoteConsumer consumer) except -1
    cpdef bint end_turn(self, long long position) except -1
    cpdef bint synced(self, long long position) except -1
    cdef void _confirm(self, unsigned long long last) except *
