cimport cython
from raft.log cimport EntryLog
from raft.member_state cimport MemberState

cdef class Following:
    cdef public MemberState member
    cdef public object leader
    cdef public long long heard_at
    cdef public long long verified_index
    cdef public bint owes_reply
    cdef object _install

    cpdef int commit(self, long long commit_index) except -1
    @cython.locals(member=MemberState, log=EntryLog, prev_index="long long", prev_term="long long", commit_index="long long", entries=list, verified="long long")
    cpdef void on_append(self, object append) except *
    @cython.locals(log=EntryLog, fresh=list, has_configuration=bint, entry=tuple, first="long long", index="long long",
                   term="long long", kind=int)
    cdef int _take_entries(self, list entries) except -1
    @cython.locals(member=MemberState)
    cpdef int end_turn(self) except -1
