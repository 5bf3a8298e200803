cimport cython
from amqp_broker.protocol.content cimport ContentScanner
from amqp_broker.protocol.fields cimport array_values, table_fields
from queues.message cimport Message, header_frame, with_header

@cython.final
cdef class Death:
    cdef public str queue
    cdef public str reason
    cdef public bytes exchange
    cdef public long long second
    cdef public bytes queue_field
    cdef public bytes reason_field
    cdef public bytes head
    cdef public dict first
    cdef public dict last
    cdef public bytes companions
    cdef public bytes raw
    cdef public long long expiration
    cdef public bytes entry
    cdef public bytes history

    cdef int take(self, bytes raw, long long expiration) except -1
    @cython.locals(key=bytes, fields=bytes)
    cdef bytes make_entry(self, bytes raw, bytes copies, long long expiration)
    @cython.locals(fields=dict)
    cdef bint is_of(self, bytes entry) except -1

@cython.final
cdef class Deaths:
    cdef public list copies
    cdef public bint has_history
    cdef Py_ssize_t _max_history_bytes
    cdef ContentScanner _scanner
    cdef bytes _section
    cdef bytes _raw
    cdef bytes _exchange
    cdef str _queue
    cdef str _reason
    cdef bytes _own_key
    cdef long long _second
    cdef long long _body_size
    cdef bytes _address
    cdef bytes _properties
    cdef bytes _header

    @cython.locals(section=bytes, raw=bytes, second="long long")
    cpdef Message letter(self, Message message, str queue, str reason, bytes exchange, bytes own_key, long long now)
    @cython.locals(scanner=ContentScanner, own_key=bytes, split=Py_ssize_t, death=Death, first=Py_ssize_t,
                   last=Py_ssize_t, headers=bytes)
    cdef int _make(self, bytes section, bytes raw, long long expiration) except -1
    @cython.locals(found=dict, new=dict, written=dict, parts=list, name=bytes, field=bytes, entry=bytes)
    cdef bytes _headers(self, list fields, Death death, bint drops_copies)
    @cython.locals(counted=bytes, others=list, value=bytes, kept=list, room=Py_ssize_t)
    cdef bytes _history(self, bytes old, Death death, bytes entry)

@cython.locals(flags="unsigned int", before=Py_ssize_t, after=Py_ssize_t, rest=bytes)
cdef bytes _replace_headers(bytes content, Py_ssize_t start, Py_ssize_t end, ContentScanner scanner, bytes headers)
@cython.locals(fields=list, parts=list, value=bytes, field=bytes, name=bytes, old=bytes)
cdef bytes _count_one_more(bytes entry)
cdef bytes _array(bytes field, bytes name)
cdef bytes _field(str name, object value)
cdef bytes _long_string(bytes octets)
cdef bytes _sized(str kind, bytes octets)
