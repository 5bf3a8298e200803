# C types of cursor_ready.py.
cimport cython
from queues.message cimport Entry, Message, make_entry
from queues.page cimport Page
from queues.ready cimport Ready
from queues.stream.chunk cimport Chunk
from queues.stream.record cimport filter_hash_of, get_record

cdef class CursorReady(Ready):
    cdef public object stream
    cdef public unsigned long long next
    cdef public unsigned long long lost
    cdef public bint is_begun
    cdef public bint is_gone
    cdef public dict waiting
    cdef public Py_ssize_t waits
    cdef public dict keys
    cdef public object resting
    cdef public Py_ssize_t looked
    cdef public unsigned long long sure
    cdef object _finder
    cdef object _reader
    cdef tuple _span
    cdef long long _ttl
    cdef dict _values
    cdef bint _takes_unfiltered
    cdef bint _is_filtered
    cdef bint _has_key_order

    cpdef void changed(self) except *
    @cython.locals(chunk=Chunk)
    cpdef Message message(self, Entry entry)
    @cython.locals(offset="unsigned long long")
    cpdef Entry pop(self)
    cdef bint _is_full(self) except -1
    @cython.locals(begin="unsigned long long")
    cdef Entry _look_for_one(self, object stream)
    @cython.locals(offset="unsigned long long", octets=bytes, at=Py_ssize_t, chunk=Chunk)
    cdef Entry _look_up_to(self, object stream, unsigned long long last)
    cdef int _pass(self, unsigned long long offset) except -1
    @cython.locals(found="unsigned int")
    cdef bint _wants(self, bytes octets, Py_ssize_t at) except -1
    cdef long long _expiry_of(self, unsigned long long offset) except -1
    cpdef long long time_of(self, unsigned long long offset) except -1
    cpdef long long first_expiry(self) except -1
    @cython.locals(entry=Entry, first="unsigned long long")
    cpdef void put_back(self, list entries) except *
    cpdef void settled(self, Entry entry) except *
    cpdef Page first_page(self, Py_ssize_t most, long long max_bytes)
