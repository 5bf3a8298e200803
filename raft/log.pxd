cimport cython
from raft.journal_records cimport put_entry

cdef class EntryLog:
    cdef public long long group_id
    cdef public list entries
    cdef public long long last_index
    cdef public long long last_term
    cdef public long long current_term
    cdef public object voted_for
    cdef public long long position
    cdef public long long synced_index
    cdef public long long checkpoint_index
    cdef public long long synced_checkpoint_index
    cdef public long long ram_bytes
    cdef public long long appended_bytes
    cdef public long long checkpoint_bytes
    cdef public long long state_segment
    cdef public long long checkpoint_segment
    cdef object _port
    cdef object _owner
    cdef long long _touched_segment
    cdef public long long synced_position
    cdef object _unsynced
    cdef object _unsynced_checkpoints
    cdef list _runs
    cdef list _configurations
    cdef object _placer
    cdef long long _least_placed
    cdef dict _shorts
    cdef long long _elsewhere_bytes

    @cython.locals(entries=list, place="long long", base="long long")
    cpdef object term_at(self, long long index)
    @cython.locals(entries=list, place="long long", start="long long", base="long long", size="long long", data=bytes)
    cpdef list entries_from(self, long long first, long long max_bytes)
    @cython.locals(base="long long")
    cpdef list entries_between(self, long long first, long long last)
    @cython.locals(entry=tuple, size="long long")
    cpdef int add(self, bytes command, long long idx, long long term, int kind=*) except -1
    @cython.locals(before="long long")
    cpdef bint synced(self, long long position) except -1
    cdef long long _segment(self) except -1
    cdef int _record_run(self, long long index, long long segment) except -1
    cdef int _place(self, long long index, bytes command) except -1
    @cython.locals(segment="long long")
    cdef long long _write_entry(self, tuple entry) except -1
