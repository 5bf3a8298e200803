cimport cython
from amqp_broker.octets.buffer cimport get_u16, get_u32, get_u64
from amqp_broker.octets.index cimport is_same
from queues.message cimport Delivery, Message, make_message
from queues.pager cimport Pager
from queues.queue cimport Queue
from queues.receipts cimport Receipt
from queues.stream.record cimport write_record
from amqp_broker.flow.output cimport Output
from amqp_broker.flow.client cimport Client
from amqp_broker.flow.message_sizes cimport bound_of, class_of
from amqp_broker.channel.confirms cimport Confirms
from amqp_broker.channel.consumer cimport ChannelConsumer
from amqp_broker.protocol.content cimport ContentScanner
from amqp_broker.routing.routes cimport HeaderRoutes, PublishRoute, RouteTable
from amqp_broker.routing.vhost cimport VHost
from amqp_broker.turn.clock cimport TurnClock

cdef int _METHOD, _HEADER, _BODY
cdef unsigned long long _SEPARATE_BODY_BYTES
cdef Py_ssize_t _WIDE, _AT_ONCE, _FEW, _CUT, _MANY_CHUNKS, _SMALL_CHUNK_BYTES, _TINY_CHUNK_BYTES

@cython.final
cdef class Channel:
    cdef public Client connection
    cdef public unsigned int channel_id
    cdef public VHost vhost
    cdef public object declarer
    cdef public object session
    cdef public Pager pager
    cdef public TurnClock clock
    cdef public Output output
    cdef public ContentScanner scanner
    cdef public bint is_closing
    cdef public bint is_open
    cdef public bint is_flowing
    cdef public object last_queue
    cdef public int expecting
    cdef public RouteTable routes
    cdef public Py_ssize_t number
    cdef public Queue only
    cdef public long long generation
    cdef public long long forgotten
    cdef public bytes raw
    cdef public int bits
    cdef public bytes header
    cdef public list body
    cdef public unsigned long long body_size
    cdef public unsigned long long body_received
    cdef public Py_ssize_t merged
    cdef public long long assembling
    cdef public long long max_assembling_bytes
    cdef public object assemblies
    cdef public unsigned long long max_message_bytes
    cdef public Py_ssize_t max_header_bytes
    cdef public bint is_confirming
    cdef public long long published
    cdef public long long extra
    cdef public long long counted
    cdef public long long counted_extra
    cdef public bytes exchange
    cdef public long long unroutable
    cdef public long long returned
    cdef long long by_size[9]
    cdef public long long sized
    cdef public long long octets
    cdef int size_class
    cdef unsigned long long size_below
    cdef unsigned long long size_to
    cdef public Confirms confirms
    cdef public object transaction
    cdef public bint is_traced
    cdef public bint settles_specially
    cdef public dict consumers
    cdef public list unacked
    cdef public unsigned long long first_tag
    cdef public Py_ssize_t head
    cdef public Py_ssize_t unacked_deliveries
    cdef public Py_ssize_t fetched
    cdef public object times
    cdef public long long note_from
    cdef public long long passed
    cdef public long long answered
    cdef public long long redelivered
    cdef public long long unwanted
    cdef public long long got
    cdef public long long got_no_ack
    cdef public long long got_nothing
    cdef public Py_ssize_t prefetch
    cdef public Py_ssize_t consumer_prefetch
    cdef public Py_ssize_t max_unacked
    cdef public dict getters
    cdef public object reply_consumer
    cdef public dict short
    cdef public list _to_dispatch
    cdef bint _shares_out
    cdef public object services

    @cython.locals(start=Py_ssize_t, key=Py_ssize_t, bits=int, table=RouteTable, number=Py_ssize_t)
    cdef int receive_publish(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end) except -1
    @cython.locals(class_id="unsigned int", size="unsigned long long", body_end=Py_ssize_t)
    cdef Py_ssize_t receive_header(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end,
                                   Py_ssize_t length) except -1
    cpdef bint expects_body(self)
    @cython.locals(header=bytes, body=list, size="unsigned long long")
    cdef int receive_body(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end) except -1
    @cython.locals(pager=Pager)
    cdef int _assemble(self, Py_ssize_t octets) except -1
    @cython.locals(scanner=ContentScanner, now="long long", message=Message, outcome=int)
    cdef int _complete(self, bytes content, Py_ssize_t header_end, list body, unsigned long long size) except -1
    @cython.locals(route=PublishRoute, outcome=int, receipt=Receipt, is_mandatory=bint, is_special=bint,
                   headers=bytes, by_headers=HeaderRoutes)
    cdef void _publish(self, Message message) except *
    cpdef int record_outcome(self, int outcome) except -1
    @cython.locals(number=int)
    cpdef int count_sizes(self) except -1
    @cython.locals(published="long long")
    cdef int _count_class(self) except -1
    @cython.locals(number=int)
    cdef int _begin_size_class(self, unsigned long long size) except -1
    cdef int _check_size(self, unsigned long long size, Py_ssize_t header) except -1
    cpdef Py_ssize_t routed_count(self) except? -1
    cpdef int count_copies(self, Py_ssize_t copies) except -1
    @cython.locals(table=RouteTable, octets="const unsigned char*", number=Py_ssize_t)
    cdef Py_ssize_t _number_of(self, bytes raw) except -1
    @cython.locals(vhost=VHost)
    cdef void _find_route(self) except *
    @cython.locals(unacked=list, tag="unsigned long long")
    cpdef unsigned long long hold(self, Delivery entry) except? 0
    cdef int _note_time(self, unsigned long long tag) except -1
    cpdef unsigned long long pass_tag(self) except? 0
    cpdef void trace(self, str what, ChannelConsumer consumer, Message message, bint is_redelivered) except *
    @cython.locals(connection=Client)
    cdef int write_deliver(self, const unsigned char* prefix, Py_ssize_t prefix_size, unsigned long long tag,
                           bint is_redelivered, Message message) except -1
    @cython.locals(connection=Client)
    cdef int write_record(self, const unsigned char* prefix, Py_ssize_t prefix_size, unsigned long long tag,
                          bytes octets, Py_ssize_t place, unsigned long long offset, bytes more) except -1
    @cython.locals(entry=Delivery, consumer=ChannelConsumer, queue=Queue)
    cpdef void receive_ack(self, unsigned long long tag, bint multiple) except *
    cpdef bint may_refuse(self, int bits)
    cpdef void receive_refusal(self, unsigned long long tag) except *
    @cython.locals(entry=Delivery, consumer=ChannelConsumer, queue=Queue)
    cpdef void ack_taken(self, list entries) except *
    @cython.locals(last=Py_ssize_t, unacked=list, index=Py_ssize_t, entry=Delivery, consumer=ChannelConsumer, queue=Queue)
    cdef void _ack_until_tag(self, unsigned long long tag) except *
    @cython.locals(index=Py_ssize_t)
    cdef Py_ssize_t _index_until(self, unsigned long long tag) except -2
    @cython.locals(index=Py_ssize_t, entry=Delivery)
    cpdef Delivery take_one(self, unsigned long long tag)
    @cython.locals(last=Py_ssize_t, index=Py_ssize_t, entry=Delivery)
    cpdef list take_until(self, unsigned long long tag)
    cpdef Py_ssize_t places_until(self, unsigned long long tag) except -1
    @cython.locals(end=Py_ssize_t, taken=list)
    cpdef list take_places(self, unsigned long long tag)
    @cython.locals(index=Py_ssize_t)
    cpdef bint is_outstanding(self, unsigned long long tag)
    @cython.locals(unacked=list, count=Py_ssize_t)
    cdef int _advance(self, Py_ssize_t index) except -1
    cdef int _give_credit(self, ChannelConsumer consumer) except -1
    @cython.locals(entry=Delivery, queues=dict)
    cpdef list refuse(self, list entries)
    @cython.locals(consumer=ChannelConsumer)
    cdef Queue _refuse(self, Delivery entry)
    @cython.locals(consumer=ChannelConsumer, queue=Queue, short=dict, now="long long")
    cdef int _share_out(self) except -1
    @cython.locals(queue=Queue)
    cpdef int revive(self, ChannelConsumer consumer) except -1
    @cython.locals(queue=Queue)
    cpdef int dispatch(self) except -1
