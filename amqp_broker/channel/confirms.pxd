cimport cython
from amqp_broker.channel.channel cimport Channel
from amqp_broker.routing.routes cimport PublishRoute
from queues.receipts cimport Receipt
from storage.journal cimport Journal

cdef unsigned int _BASIC_ACK, _BASIC_NACK
cdef int _STORED, _REFUSED

@cython.final
cdef class ConfirmRecord:
    cdef public Confirms confirms
    cdef public unsigned long long last
    cdef public long long position
    cdef public Py_ssize_t waiting

cdef class TurnReceipt(Receipt):
    cdef readonly ConfirmRecord record
    cdef Confirms _confirms
    cdef readonly unsigned long long first
    cdef readonly unsigned long long last

    cpdef void expect(self) except *
    cpdef unsigned long long at_hand(self) except? 0
    cpdef void complete(self, object refusal) except *
    @cython.locals(record=ConfirmRecord, number="unsigned long long")
    cpdef void complete_run(self, object refusal, unsigned long long first, unsigned long long last) except *

cdef class PublishReceipt(Receipt):
    cdef public ConfirmRecord record
    cdef public unsigned long long number
    cdef public unsigned long long last
    cdef public bint is_serial

    cpdef void expect(self) except *
    @cython.locals(record=ConfirmRecord, number="unsigned long long")
    cpdef void complete(self, object refusal) except *
    @cython.locals(record=ConfirmRecord)
    cpdef void take_outcome(self, int outcome, long long position) except *

@cython.final
cdef class Confirms:
    cdef public Channel channel
    cdef Confirming _confirming
    cdef public unsigned long long published
    cdef public unsigned long long confirmed
    cdef unsigned long long _recorded
    cdef bint _turn_is_noted
    cdef bint _turn_is_stored
    cdef ConfirmRecord _turn_record
    cdef TurnReceipt _turn_receipt
    cdef PublishReceipt _joint
    cdef PublishRoute _joint_way
    cdef object _pending
    cdef set _nacked
    cdef object _requests
    cdef long long _done_requests
    cdef long long _stored_position
    cdef long long _synced_position
    cdef unsigned long long _due

    cpdef void end(self) except *
    cdef int record_publish(self) except -1
    cpdef int record_request(self) except -1
    cpdef Py_ssize_t messages_published(self) except? -1
    cpdef Py_ssize_t messages_confirmed(self) except? -1
    cdef int _forget_done_requests(self) except -1
    cpdef int record_outcome(self, int outcome) except -1
    @cython.locals(receipt=PublishReceipt)
    cpdef PublishReceipt new_receipt(self)
    @cython.locals(receipt=TurnReceipt)
    cdef TurnReceipt turn_receipt(self)
    @cython.locals(joint=PublishReceipt)
    cdef PublishReceipt serial_receipt(self, PublishRoute way)
    cdef int _forget_turn(self) except -1
    cpdef int record_stored(self, long long position) except -1
    cdef int record_refused(self, unsigned long long number) except -1
    cpdef int record_turn(self) except -1
    @cython.locals(record=ConfirmRecord)
    cpdef bint end_turn(self, long long position) except -1
    cpdef bint synced(self, long long position) except -1
    @cython.locals(last="unsigned long long", record=ConfirmRecord)
    cdef int _confirm_done(self) except -1
    cdef void _tell(self, unsigned long long last) except *
    @cython.locals(last="unsigned long long")
    cpdef void tell_due(self) except *
    @cython.locals(channel=Channel, nacked=set, number="unsigned long long")
    cdef void _confirm(self, unsigned long long last) except *
    @cython.locals(channel=Channel, count="long long")
    cdef void _ack_until(self, Channel channel, unsigned long long last) except *

@cython.final
cdef class Confirming:
    cdef public list noted
    cdef public dict awaiting
    cdef Journal _journal
    cdef object _timers
    cdef object _clock
    cdef public long long delay_ms
    cdef list _delayed

    cdef int note(self, Confirms confirms) except -1
    @cython.locals(noted=list, confirms=Confirms, position="long long")
    cpdef int end_turn(self, long long now) except -1
    @cython.locals(confirms=Confirms)
    cpdef int synced(self, long long position) except -1
    cpdef int delay(self, Confirms confirms) except -1
