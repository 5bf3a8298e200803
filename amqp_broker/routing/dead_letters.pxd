cimport cython
from amqp_broker.messages.deaths cimport Deaths
from queues.receipts cimport JointReceipt
from amqp_broker.routing.vhost cimport VHost
from amqp_broker.turn.clock cimport TurnClock
from queues.message cimport Entry, Message

@cython.final
cdef class LetterRoute:
    cdef public object queue
    cdef public VHost vhost
    cdef public object router
    cdef public object settings
    cdef public long long generation
    cdef public bytes exchange
    cdef public bytes own_key
    cdef public bint is_plain
    cdef public bint may_need_receipt
    cdef public dict routes

    cdef bint holds(self, dict vhosts) except -1
    cdef list remember(self, Message letter)

@cython.final
cdef class DeadLetters:
    cdef dict _vhosts
    cdef object _discards
    cdef TurnClock _clock
    cdef object _is_alone
    cdef Deaths _deaths
    cdef dict _letter_routes
    cdef Py_ssize_t _route_count
    cdef object _receipt
    cdef public Py_ssize_t backlog
    cdef public bint is_posting
    cdef public list refused
    cdef public long long cycles
    cdef public long long cycles_dropped
    cdef public dict published

    @cython.locals(copies=Py_ssize_t, receipt=JointReceipt)
    cpdef Py_ssize_t post(self, object queue, Entry entry, object reason, long long now) except? -2
    @cython.locals(published=list)
    cpdef int count(self, object queue, object reason, long long cycles) except -1
    @cython.locals(letter_route=LetterRoute, deaths=Deaths, vhost=VHost, letter=Message, delayed=list, queues=list)
    cdef Py_ssize_t _publish(self, object queue, Message message, object reason, long long now, object receipt,
                             bint makes_receipt) except? -2
    @cython.locals(outcome=int)
    cdef int _try(self, VHost vhost, Message letter, list queues, list delayed, long long now,
                  object receipt) except -1
    cdef LetterRoute _find_letter_route(self, object queue)
    cdef list _remember(self, LetterRoute letter_route, Message letter)
    cdef int _forget_all(self) except -1
    @cython.locals(letter_route=LetterRoute)
    cpdef int forget(self, object queue) except -1
    cdef list _without_cycles(self, object source, list queues, object reason, Message message, bint has_history)
