cimport cython
from queues.consumer cimport Consumer
from queues.dispatcher cimport Dispatcher
from queues.letters cimport Letters
from queues.message cimport Delivery, Entry, Message, make_entry
from queues.page cimport Page, packed_size
from queues.pager cimport Pager
from queues.queue cimport Queue
from queues.ready cimport Ready
from queues.store cimport MessageStore

cdef int _TAKEN, _STORED, _REFUSED

cdef class ClassicQueue(Queue):
    # What every message touches comes first, side by side: with many queues each line of it comes from memory.
    cdef public bint rejects_overflow
    cdef public bint is_limited
    cdef public bint is_drained
    cdef public bint has_dead_letters
    cdef public long long message_ttl
    cdef public Consumer only_consumer
    cdef public unsigned long long next_sequence
    # Here begins what an acknowledgement touches.
    cdef public Py_ssize_t unacked
    cdef public long long published
    cdef public long long delivered
    cdef public long long settled_count
    cdef public Pager pager
    cdef public bint _expires_soon
    cdef bint _is_pressed
    cdef public Ready ready
    cdef public Dispatcher dispatcher
    cdef public list settled
    cdef public dict held
    cdef public MessageStore store
    cdef public object watcher
    cdef public object last_letters
    cdef public object timers
    cdef public object background
    cdef public object post
    cdef public Letters letters
    cdef public bint is_working
    cdef Py_ssize_t _at_once
    cdef int _returning
    cdef list _waiting
    cdef public unsigned int last_segment
    cdef public long long redelivered
    cdef public long long _expiry_at
    cdef public object _expiry_timer
    cdef public long long max_length
    cdef public long long max_length_bytes
    cdef public dict lease_groups
    cdef public dict parting

    @cython.locals(expires_at="long long", taker=Consumer, segment="unsigned int", store=MessageStore)
    cpdef int publish(self, Message message, object receipt, bint is_again, long long now) except -1
    @cython.locals(ready=Ready)
    cpdef bint rejects(self, Message message, long long now) except -1
    @cython.locals(ttl="long long")
    cpdef long long expiry_of(self, Message message, long long now)
    @cython.locals(consumer=Consumer)
    cpdef Consumer taker(self)
    @cython.locals(sequence="unsigned long long", entry=Entry)
    cpdef void enqueue(self, Message message, long long expires_at, unsigned int journal_segment, Consumer taker,
                       long long now) except *
    cdef void _became_ready(self) except *
    cdef int _hand_over(self, Entry entry, Consumer consumer) except -1
    @cython.locals(ready=Ready)
    cdef bint _is_too_long(self) except -1
    @cython.locals(entry=Entry)
    cdef Py_ssize_t _drop_excess(self, Py_ssize_t most) except? -1
    cdef int _drop_excess_at_once(self) except -1
    @cython.locals(ready=Ready, entry=Entry, consumer=Consumer, message=Message, is_over=bint)
    cpdef int dispatch(self, long long now) except -1
    @cython.locals(ready=Ready, entry=Entry)
    cpdef Entry get(self, long long now)
    @cython.locals(ready=Ready, entry=Entry, size="long long")
    cpdef list take_ready(self, Py_ssize_t most, long long max_bytes, bint takes_any, long long now)
    cpdef int take_held(self, Entry entry, Consumer consumer) except -1
    cpdef int credit_returned(self, Consumer consumer) except -1
    cpdef int ack(self, Delivery entry) except -1
    cpdef int reject(self, Delivery entry, long long now) except -1
    @cython.locals(entry=Entry)
    cpdef int put_back(self, list entries, long long now) except -1
    cdef int _make_ready(self, list entries, long long now) except -1
    cdef int _forget(self, Entry entry) except -1
    cdef void _leave_page(self, Entry entry) except *
    cdef int _mark_settled(self, unsigned long long sequence) except -1
    cdef int _drop(self, Entry entry, str reason) except -1
    @cython.locals(letters=Letters)
    cdef int _give_up(self, Entry entry, str reason) except -1
    cpdef int post_refused(self, Message message, long long now) except -1
    cpdef int settle_letter(self, Entry entry) except -1
    cpdef int work_on(self) except -1
    @cython.locals(left=Py_ssize_t, letters=Letters, is_done=bint)
    cpdef bint work(self, long long now) except -1
    cdef bint _is_held_up(self) except -1
    @cython.locals(entry=Entry)
    cdef bint _head_has_expired(self, long long now) except -1
    @cython.locals(ready=Ready, entry=Entry)
    cdef Py_ssize_t _drop_expired(self, Py_ssize_t most, long long now) except? -1
    cdef bint _drop_expired_at_once(self, long long now) except -1
    cdef int _watch(self, long long expires_at) except -1
