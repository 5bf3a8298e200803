cimport cython
from raft.log cimport EntryLog

cdef class MemberState:
    cdef public str node_id
    cdef public long long group_id
    cdef public EntryLog log
    cdef public object machine
    cdef public object settings
    cdef public long long log_bytes
    cdef public object is_connected
    cdef public long long clock
    cdef public long long now
    cdef public long long deadline
    cdef public long long timeout
    cdef public bint is_stopped
    cdef public long long current_term
    cdef public object voted_for
    cdef public long long commit_index
    cdef public long long last_applied
    cdef public object role
    cdef public bint is_leader
    cdef object _post

    cpdef int send(self, str peer, object message) except -1
    cpdef int set_commit(self, long long index) except -1
    @cython.locals(entry=tuple, index="long long", term="long long", kind=int)
    cpdef int apply_committed(self) except -1
