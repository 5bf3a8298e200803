# C types of journal.py.
cimport cython
from amqp_broker.octets.buffer cimport Buffer

cdef class Batch:
    cdef public object position
    cdef public Buffer buffer
    cdef public bint is_mark
    cdef public list splits
    cdef public list removals
    cdef public Py_ssize_t room_bytes
    cdef public bint cuts_room
    cdef public object full_segment
    cdef object _disk
    cdef object _folder
    cdef object _segment
    cdef Py_ssize_t _offset
    cdef object _start_position
    cdef bint _was_tried
    cdef bint _is_durable

cdef class Journal:
    cdef readonly Buffer buffer
    cdef readonly long long position
    cdef readonly long long current_segment
    cdef readonly object torn_tail
    cdef readonly list set_aside
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
    cdef object _roomy
    cdef Batch _in_flight
    cdef list _segments
    cdef list _retired
    cdef bint _is_recovered

    cpdef Buffer open_entry(self, unsigned int kind)
    @cython.locals(buffer=Buffer, start=Py_ssize_t, end=Py_ssize_t)
    cpdef long long close_entry(self) except -1
    cdef _split(self, Py_ssize_t entry_start)
    cdef _rotate_if_full(self)
    cdef _plan_room(self, Batch batch)
    cdef _add_segment(self)
