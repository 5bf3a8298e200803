# C types of journal.py.
cimport cython
from amqp_broker.octets.buffer cimport Buffer
from storage.records cimport pack_header

cdef int _BATCH
cdef Py_ssize_t _HEADER_BYTES, _SEGMENT_BYTES, _ROOM_BATCH_BYTES

@cython.final
cdef class Segment:
    cdef readonly object path
    cdef readonly long long number
    cdef readonly long long start_position
    cdef public long long bytes

cdef class Batch:
    cdef readonly long long position
    cdef public Buffer buffer
    cdef public bint is_mark
    cdef public list splits
    cdef public list removals
    cdef public Py_ssize_t room_bytes
    cdef public bint cuts_room
    cdef object _disk
    cdef object _folder
    cdef Segment _segment
    cdef Py_ssize_t _offset
    cdef long long _start_position
    cdef bint _was_tried
    cdef bint _is_durable

    cpdef Py_ssize_t size(self) except -1
    cpdef bint is_small_append(self, Py_ssize_t most_bytes) except -1
    cpdef void write_and_sync(self) except *
    @cython.locals(views=list, pieces=list, written=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
    cdef void _write(self, object path) except *

cdef class Journal:
    cdef readonly Buffer buffer
    cdef readonly long long position
    cdef readonly long long current_segment
    cdef readonly object torn_tail
    cdef readonly list set_aside
    cdef readonly long long total_bytes
    cdef object _disk
    cdef object _folder
    cdef long long _segment_bytes
    cdef Py_ssize_t _record_bytes
    cdef Py_ssize_t _room_bytes
    cdef Buffer _spare
    cdef long long _taken
    cdef Py_ssize_t _entry_start
    cdef Py_ssize_t _record_start
    cdef list _splits
    cdef bint _mark_is_wanted
    cdef long long _room_end
    cdef bint _is_ending
    cdef Batch _in_flight
    cdef list _segments
    cdef list _retired
    cdef bint _is_recovered

    cpdef Buffer open_entry(self, unsigned int kind)
    @cython.locals(buffer=Buffer, start=Py_ssize_t, end=Py_ssize_t)
    cpdef long long close_entry(self) except -1
    cdef _split(self, Py_ssize_t entry_start)
    cdef _rotate_if_full(self)
    cdef int _plan_room(self, Batch batch, long long end, Py_ssize_t size) except -1
    @cython.locals(batch=Batch, size=Py_ssize_t, segment=Segment)
    cpdef Batch take_batch(self)
    @cython.locals(buffer=Buffer)
    cpdef int batch_done(self, Batch batch) except -1
