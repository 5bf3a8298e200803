cimport cython
from amqp_broker.octets.buffer cimport Buffer
from queues.message cimport Message
from queues.page cimport AddressBook, put_message
from queues.queue cimport Queue
from queues.stream.append_chunk cimport AppendChunk, get_append, put_append
from queues.wire.reader cimport Reader, octets_of
from queues.wire.traffic cimport get_enqueue, get_settle, put_enqueue, put_settle

cdef int _OPEN_QUEUE, _DROP_QUEUE, _ENQUEUE, _SETTLE, _ATTACH, _DETACH, _PREFETCH, _GET, _PURGE
cdef int _TICK, _NODE_DOWN, _DISPATCHED, _STREAMS, _APPEND_CHUNK, _OPEN_EXTENDED, _SETTLE_FAILED
cdef object _FAIL
cdef Py_ssize_t _HEAD_BYTES
cdef int _VERSION, _WITH_STREAMS
cdef unsigned long long _TIME_MAX, _U64_MAX
cdef dict _READERS, _WRITERS

@cython.locals(start=Py_ssize_t)
cpdef int put_command(Buffer buffer, object command) except -1
@cython.locals(start=Py_ssize_t, queue=Queue)
cpdef int put_publish(Buffer buffer, list queues, Message message) except -1
cpdef Py_ssize_t put_batch_head(Buffer buffer, unsigned long long time, str origin, unsigned long long session,
                                unsigned long long first, unsigned long long seen, unsigned int version=*) except -1
@cython.locals(fields=Reader, commands=list, kind=int, has_streams=bint)
cdef list _get_commands(Reader reader, Py_ssize_t count, bint is_leaders, int version, AddressBook addresses)
cpdef object get_command(Reader reader, int kind)
@cython.locals(version=int, time="unsigned long long", origin=str, session="unsigned long long",
               first="unsigned long long", seen="unsigned long long", count=Py_ssize_t)
cpdef tuple get_batch_head(Reader reader)
@cython.locals(reader=Reader, count=Py_ssize_t, version=int, commands=list)
cpdef object decode_batch(bytes data, AddressBook addresses)
