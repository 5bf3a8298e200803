cimport cython
from amqp_broker.octets.buffer cimport Buffer
from amqp_broker.queue_types.proxy.command_sink cimport CommandSink
from amqp_broker.queue_types.proxy.consumer cimport ProxyConsumer
from queues.receipts cimport Receipt
from amqp_broker.queue_types.remote.effects_codec cimport EffectsReader
from queues.message cimport Message
from queues.page cimport AddressBook
from queues.quorum.batch_writer cimport put_publish_to_one
from queues.quorum.commands cimport put_batch_head, put_command, put_publish

cdef Py_ssize_t _COUNT_BYTES, _FRAME_BYTES, _IN_FLIGHT_BYTES, _CONSUMER_SHARE_BYTES, _LINK_SHARE_BYTES
cdef int _TAKEN

@cython.final
cdef class Run:
    cdef public Py_ssize_t count
    cdef public Py_ssize_t size
    cdef public Py_ssize_t done
    cdef public bytes octets
    cdef public tuple counts
    cdef public list receipts

    cdef int expect(self, Receipt receipt) except -1

cdef class HomeLink(CommandSink):
    cdef public str own_node
    cdef public str home
    cdef public bint is_connected
    cdef public bint is_blocked
    cdef public long long backlog_bytes
    cdef public unsigned long long session
    cdef public unsigned long long applied
    cdef public unsigned long long commands_sent
    cdef object _send_frame
    cdef AddressBook _addresses
    cdef Buffer _buffer
    cdef Buffer _head
    cdef unsigned long long _next_consumer
    cdef object _unconfirmed
    cdef object _unsent
    cdef Run _run
    cdef long long _submitted
    cdef long long _sent
    cdef long long _in_flight
    cdef object _counting
    cdef dict _untaken
    cdef unsigned long long _received
    cdef unsigned long long _told

    @cython.locals(start=Py_ssize_t)
    cpdef int publish(self, Message message, list proxies, object receipt, bint is_again, long long now) except -1
    @cython.locals(start=Py_ssize_t)
    cdef int publish_to_one(self, Message message, unsigned long long queue_id, object receipt) except -1
    @cython.locals(start=Py_ssize_t)
    cpdef object submit(self, object command, object receipt=*)
    @cython.locals(buffer=Buffer, size=Py_ssize_t, run=Run)
    cdef int _was_put(self, Py_ssize_t start, object receipt) except -1
    @cython.locals(run=Run)
    cdef int _seal(self) except -1
    @cython.locals(run=Run, first="unsigned long long")
    cpdef void end_turn(self, long long now) except *
    @cython.locals(head=Buffer, count_at=Py_ssize_t)
    cdef int _send_commands(self, unsigned long long first, Py_ssize_t count, bytes octets) except -1
    @cython.locals(delivery_owner=ProxyConsumer, taken="unsigned long long")
    cdef int _tell_taken(self) except -1
    cpdef void receive_effects(self, bytes payload, long long now) except *
    @cython.locals(delivery_owner=ProxyConsumer, number="unsigned long long", message=Message)
    cdef int _on_effects(self, EffectsReader effects) except -1
    @cython.locals(delivery_owner=ProxyConsumer)
    cdef ProxyConsumer _owner_of(self, unsigned long long number)
    @cython.locals(first="unsigned long long", last="unsigned long long", left=Py_ssize_t, count=Py_ssize_t, run=Run,
                   at=Py_ssize_t, receipt=Receipt, refusals=dict)
    cdef int _on_confirmed(self, object effect) except -1
    cdef int _confirmed(self, Py_ssize_t count) except -1
    @cython.locals(run=Run, receipt=Receipt)
    cdef int _lose(self) except -1
