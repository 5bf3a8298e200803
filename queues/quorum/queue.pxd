cimport cython
from queues.consumer cimport Consumer
from queues.dispatcher cimport Dispatcher
from queues.message cimport Entry, Message
from queues.pager cimport Pager
from queues.quorum.consumer cimport QuorumConsumer
from queues.quorum.deduplication cimport Deduplication
from queues.quorum.letters cimport Letters
from queues.rules cimport QueueRules
from queues.sums cimport QueueSums

cdef object _MAXLEN, _ACK, _REQUEUE, _RETURN, _FAIL
cdef int _AT_ONCE

cdef class Sink:
    cpdef int delivered(self, QuorumConsumer consumer, unsigned long long delivery_id, Entry entry) except -1
    cpdef int lettered(self, Letters letters, Entry entry) except -1
    cpdef int discarded(self, unsigned long long queue_id, Py_ssize_t messages) except -1

cdef class QuorumQueue(QueueRules):
    cdef public Sink sink
    cdef public Letters letters
    cdef public Deduplication deduplication
    cdef public dict delivery_owners
    cdef public bint is_touched
    cdef public object resting
    cdef public object quorum_settings
    cdef object _retry
    cdef public bint gives_way
    cdef public long long timeout
    cdef long long _expires
    cdef public long long delivered
    cdef public long long auto_acked
    cdef public long long redelivered
    cdef public long long acked

    cpdef int add_counters(self, QueueSums sums) except -1
    cpdef int apply_settings(self, object settings) except -1
    cpdef int dispatch(self, long long now) except -1
    @cython.locals(dispatcher=Dispatcher, consumer=QuorumConsumer)
    cdef void _change_turns(self) except *
    @cython.locals(taker=QuorumConsumer)
    cpdef Py_ssize_t give(self, Entry entry, Consumer consumer, long long now) except -1
    @cython.locals(entry=Entry)
    cpdef unsigned long long get(self, QuorumConsumer delivery_owner, long long clock) except? 0
    @cython.locals(entries=list, entry=Entry)
    cpdef object settle(self, QuorumConsumer consumer, object how, tuple ranges, long long clock)
    cpdef int rest(self, list entries, long long now) except -1
    cpdef int bury(self, Entry entry, object reason) except -1
    cpdef int bury_refused(self, Message message) except -1
    @cython.locals(entry=Entry)
    cdef int _add_letter(self, Message message, object reason, unsigned int returns) except -1
    cpdef int discarded(self, Py_ssize_t messages) except -1
    cpdef int forget(self, Entry entry) except -1
    @cython.locals(due="long long", consumer=QuorumConsumer)
    cpdef long long due_at(self, long long clock) except *
    @cython.locals(due="long long")
    cpdef long long due_without_delivery_owners(self, long long clock) except *
    cpdef bint is_in_use(self) except -1
    cpdef void normalise(self, long long clock) except *

cdef long long _earlier(long long when, long long other) noexcept
