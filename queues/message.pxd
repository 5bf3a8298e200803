cimport cython

cdef Py_ssize_t _OVERHEAD_BYTES

@cython.final
cdef class Address:
    cdef readonly bytes raw

@cython.final
@cython.no_gc
cdef class Message:
    cdef public bytes raw
    cdef public bytes content
    cdef public list body
    cdef public unsigned long long body_size
    cdef public long long expiration
    cdef public long long timestamp
    cdef public long long size
    cdef public Py_ssize_t header_end
    cdef public bint is_persistent
    cdef public int priority

    cpdef bytes properties(self)
    cpdef bytes body_bytes(self)

@cython.locals(message=Message)
cpdef Message make_message(bytes raw, bytes content, Py_ssize_t header_end, list body,
                           unsigned long long body_size, bint is_persistent, int priority, long long expiration,
                           long long timestamp)

cpdef Message remake_message(Message message, bytes raw, bytes properties, long long expiration)
@cython.locals(size=bytes)
cpdef bytes header_frame(bytes properties, object body_size)
@cython.locals(content=bytes)
cpdef Message with_header(Message message, bytes raw, bytes header, long long expiration)

@cython.no_gc
cdef class Delivery:
    cdef public Message message
    cdef public unsigned long long sequence
    cdef public object consumer
    cdef public unsigned int returns
    cdef public bint is_redelivered

@cython.final
@cython.no_gc
cdef class Entry(Delivery):
    cdef public long long expires_at
    cdef public object page
    cdef public unsigned int journal_segment

@cython.locals(entry=Entry)
cpdef Entry make_entry(Message message, unsigned long long sequence, long long expires_at,
                       unsigned int journal_segment)
