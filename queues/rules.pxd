cimport cython
from queues.consumer cimport Consumer
from queues.dispatcher cimport Dispatcher
from queues.message cimport Delivery, Entry, Message, make_entry
from queues.page cimport packed_size
from queues.pager cimport Pager
from queues.queue cimport Queue
from queues.ready cimport Ready
from queues.sums cimport QueueSums

cdef unsigned int _MOST_RETURNS
cdef long long _TIME_MAX
cdef object _REJECTED, _EXPIRED, _MAXLEN, _DELIVERY_LIMIT

cdef class QueueRules(Queue):
    # What every message touches comes first, side by side: with many queues each line of it comes from memory.
    cdef public bint rejects_overflow
    cdef public bint drops_head
    cdef public bint has_dead_letters
    cdef public bint may_expire
    cdef public long long message_ttl
    cdef public unsigned long long next_sequence
    cdef public Py_ssize_t unacked
    cdef public Pager pager
    cdef public Ready ready
    cdef public Dispatcher dispatcher
    cdef public bint buries_refused
    cdef public Py_ssize_t most_at_once
    cdef public long long max_length
    cdef public long long max_length_bytes
    cdef public long long delivery_limit
    cdef public long long unconsumed
    cdef public list drops
    cdef public object lease_groups

    @cython.locals(drops=list)
    cpdef int add_drops(self, QueueSums sums) except -1
    cpdef int apply_arguments(self, object arguments) except -1
    cpdef bint is_in_use(self) except -1

    cpdef Py_ssize_t give(self, Entry entry, Consumer consumer, long long now) except -1
    cpdef int forget(self, Entry entry) except -1
    cpdef int bury(self, Entry entry, object reason) except -1
    cpdef int bury_refused(self, Message message) except -1
    cpdef int discarded(self, Py_ssize_t messages) except -1
    cpdef bint is_held_up(self) except -1
    cpdef int schedule(self) except -1
    cpdef int watch(self, long long expires_at, long long now) except -1
    cpdef int became_ready(self) except -1
    cpdef int regained(self, Entry entry, bint counts, long long now) except -1
    cpdef int rest(self, list entries, long long now) except -1

    @cython.locals(sequence="unsigned long long", expires_at="long long", consumer=Consumer, entry=Entry)
    cpdef bint accept(self, Message message, long long now) except -1
    cpdef bint rejects(self, Message message, long long now) except -1
    @cython.locals(ready=Ready)
    cpdef bint refuses(self, Message message) except -1
    @cython.locals(ttl="long long")
    cpdef long long expiry_of(self, Message message, long long now) except -1
    cdef int add(self, Message message, unsigned long long sequence, long long expires_at,
                 unsigned int journal_segment, long long now) except -1
    @cython.locals(ready=Ready)
    cpdef bint is_too_long(self) except -1
    @cython.locals(entry=Entry)
    cpdef Py_ssize_t drop_excess(self, Py_ssize_t most) except? -1
    cpdef int drop_excess_at_once(self) except -1
    @cython.locals(ready=Ready, consumer=Consumer, entry=Entry)
    cpdef Py_ssize_t hand_out(self, Py_ssize_t most, long long now) except? -1
    @cython.locals(ready=Ready, entry=Entry, taken=list, left=Py_ssize_t, size="long long")
    cpdef list take_ready(self, Py_ssize_t most, long long max_bytes, bint takes_any, long long now)
    cpdef Entry take_first(self, long long now)
    cpdef int ack(self, Delivery entry) except -1
    cpdef int reject(self, Delivery entry, long long now) except -1
    @cython.locals(kept=list, dropped=Py_ssize_t, limit="long long", entry=Entry)
    cpdef int bring_back(self, list entries, bint counts, long long now, bint rests=*) except -1
    cpdef int come_again(self, list entries) except -1
    cpdef int drop(self, Entry entry, object reason) except -1
    @cython.locals(ready=Ready, entry=Entry, expires_at="long long")
    cpdef Py_ssize_t drop_expired(self, Py_ssize_t most, long long now) except? -1
    cpdef bint drop_expired_at_once(self, long long now) except -1
    cpdef bint head_has_expired(self, long long now) except -1
