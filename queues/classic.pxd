cimport cython
from queues.consumer cimport Consumer
from queues.letters cimport Letters
from queues.message cimport Entry, Message, make_entry
from queues.page cimport Page
from queues.rules cimport QueueRules
from queues.ready cimport Ready
from queues.store cimport MessageStore
from storage.journal cimport Journal
from queues.sums cimport QueueSums

cdef object _MAXLEN
cdef int _TAKEN, _STORED, _REFUSED

cdef class ClassicQueue(QueueRules):
    # What every message touches comes first, side by side: with many queues each line of it comes from memory.
    cdef public bint is_drained
    cdef bint _is_pressed
    cdef public Consumer only_consumer
    # Here begins what an acknowledgement touches.
    cdef public long long published
    cdef public long long delivered
    cdef public long long auto_acked
    cdef public long long settled_count
    cdef public list settled
    cdef public dict held
    cdef public object leaving
    cdef public MessageStore store
    cdef public object watcher
    cdef public object last_letters
    cdef public object timers
    cdef public object background
    cdef public object post
    cdef public Letters letters
    cdef public bint is_working
    cdef Py_ssize_t _share
    cdef int _returning
    cdef list _waiting
    cdef public unsigned int last_segment
    cdef public long long redelivered
    cdef public long long _expiry_at
    cdef public object _expiry_timer

    @cython.locals(expires_at="long long", taker=Consumer, segment="unsigned int", store=MessageStore)
    cpdef int publish(self, Message message, object receipt, bint is_again, long long now) except -1
    @cython.locals(consumer=Consumer)
    cpdef Consumer taker(self)
    @cython.locals(sequence="unsigned long long", entry=Entry)
    cpdef void enqueue(self, Message message, long long expires_at, unsigned int journal_segment, Consumer taker,
                       long long now) except *
    @cython.locals(ready=Ready)
    cpdef int add_counts(self, QueueSums sums) except -1
    cpdef int add_counters(self, QueueSums sums) except -1
    cpdef int became_ready(self) except -1
    @cython.locals(message=Message)
    cpdef Py_ssize_t give(self, Entry entry, Consumer consumer, long long now) except -1
    cdef int _hand_over(self, Entry entry, Consumer consumer) except -1
    cpdef int dispatch(self, long long now) except -1
    @cython.locals(entry=Entry)
    cpdef Entry get(self, long long now)
    @cython.locals(entry=Entry, taken=list)
    cpdef list take_ready(self, Py_ssize_t most, long long max_bytes, bint takes_any, long long now)
    cpdef int take_held(self, Entry entry, Consumer consumer) except -1
    cpdef int credit_returned(self, Consumer consumer) except -1
    cpdef int put_back(self, list entries, long long now) except -1
    @cython.locals(entry=Entry)
    cdef int _come_back(self, list entries, bint counts, long long now) except -1
    cpdef int regained(self, Entry entry, bint counts, long long now) except -1
    cpdef int forget(self, Entry entry) except -1
    cdef void _leave_page(self, Entry entry) except *
    cpdef bint leave_segment(self, unsigned int segment) except -1
    @cython.locals(left=dict, seen=dict, entry=Entry, sequence=object, journal=Journal, end="long long", most_bytes="long long")
    cdef bint _leave_held(self, leaving, unsigned int segment) except -1
    cdef void _rely_on_no_more(self, Entry entry) except *
    cdef void _write_again(self, Entry entry) except *
    cdef int _mark_settled(self, unsigned long long sequence) except -1
    cpdef int drop(self, Entry entry, object reason) except -1
    cpdef int bury(self, Entry entry, object reason) except -1
    cpdef int bury_refused(self, Message message) except -1
    cpdef int discarded(self, Py_ssize_t messages) except -1
    cpdef int post_refused(self, Message message, long long now) except -1
    cpdef int settle_letter(self, Entry entry) except -1
    cpdef int schedule(self) except -1
    cpdef int work_on(self) except -1
    @cython.locals(left=Py_ssize_t, letters=Letters, is_done=bint)
    cpdef bint work(self, long long now) except -1
    cpdef bint is_held_up(self) except -1
    cpdef bint drop_expired_at_once(self, long long now) except -1
    cpdef int watch(self, long long expires_at, long long now) except -1
    cdef int _watch(self, long long expires_at) except -1
