cimport cython
from queues.consumer cimport Consumer
from queues.dispatcher cimport Dispatcher
from queues.message cimport Entry, Message, make_entry
from queues.page cimport packed_size
from queues.pager cimport Pager
from queues.quorum.consumer cimport QuorumConsumer
from queues.quorum.deduplication cimport Deduplication
from queues.quorum.letters cimport Letters
from queues.ready cimport Ready

cdef object _ACK, _REQUEUE, _RETURN
cdef int _AT_ONCE
cdef unsigned int _MOST_RETURNS
cdef long long _MOST_TIME

cdef class Sink:
    cpdef int delivered(self, QuorumConsumer consumer, unsigned long long delivery_id, Entry entry) except -1
    cpdef int lettered(self, Letters letters, Entry entry) except -1
    cpdef int discarded(self, unsigned long long queue_id, Py_ssize_t messages) except -1

@cython.final
cdef class QuorumQueue:
    cdef public unsigned long long queue_id
    cdef public Pager pager
    cdef public Sink sink
    cdef public Ready ready
    cdef public Dispatcher dispatcher
    cdef public Letters letters
    cdef public Deduplication deduplication
    cdef public dict holders
    cdef public unsigned long long next_sequence
    cdef public Py_ssize_t unacked
    cdef public long long last_used
    cdef public bint may_expire
    cdef public bint is_touched
    cdef public object leases
    cdef public object settings
    cdef public long long timeout
    cdef long long _max_length
    cdef long long _max_bytes
    cdef bint _drops_head
    cdef bint _holds_back
    cdef bint _rejects
    cdef long long _ttl
    cdef long long _expires
    cdef bint _has_dead_letters
    cdef long long _delivery_limit

    cpdef int apply_settings(self, object settings) except -1
    @cython.locals(sequence="unsigned long long", expires_at="long long", consumer=Consumer, entry=Entry)
    cpdef bint enqueue(self, Message message, long long clock) except -1
    cdef bint _has_no_room_for(self, Message message) noexcept
    @cython.locals(ttl="long long")
    cdef long long _expiry_of(self, Message message, long long clock) noexcept
    cdef bint _is_over_limit(self) noexcept
    @cython.locals(entry=Entry)
    cdef int _enforce_limits(self, int most) except -1
    @cython.locals(ready=Ready, most=int, consumer=Consumer, entry=Entry)
    cpdef void dispatch(self, long long clock) except *
    @cython.locals(consumer=QuorumConsumer)
    cdef int _hand_over(self, Entry entry, object taker, long long clock) except -1
    @cython.locals(entry=Entry)
    cpdef unsigned long long get(self, QuorumConsumer holder, long long clock) except? 0
    @cython.locals(entries=list, entry=Entry)
    cpdef object settle(self, QuorumConsumer consumer, object how, tuple ranges, long long clock)
    @cython.locals(entry=Entry, taken=list, size="long long", dropped=int)
    cpdef list take_ready(self, Py_ssize_t most, long long max_bytes, long long clock)
    cpdef int take_leased(self, list entries) except -1
    @cython.locals(kept=list, limit="long long", entry=Entry)
    cdef int _put_back(self, list entries, bint counts) except -1
    cdef int _drop(self, Entry entry, object reason) except -1
    @cython.locals(entry=Entry)
    cdef int _bury(self, Message message, object reason, unsigned int returns) except -1
    cdef int _forget(self, Entry entry) except -1
    @cython.locals(due="long long", consumer=QuorumConsumer)
    cpdef long long due_at(self, long long clock) except *
    @cython.locals(due="long long", head=Entry)
    cpdef long long due_without_holders(self, long long clock) except *
    cdef bint _is_unused(self) except -1
    @cython.locals(most=int, entry=Entry)
    cpdef void normalise(self, long long clock) except *

cdef long long _earlier(long long when, long long other) noexcept
