cimport cython
from raft.member_state cimport MemberState

cdef class Group:
    cdef public long long group_id
    cdef public MemberState member
    cdef tuple _announced
    cdef object _seen_role
    cdef object _seen_leader
    cdef long long _seen_transfers
    cdef dict _dirty
    cdef public object leaders

    @cython.locals(member=MemberState)
    cpdef bint propose(self, bytes data) except -1
    @cython.locals(member=MemberState)
    cpdef int settle(self) except -1
    cdef int _announce(self, MemberState member) except -1
    cdef MemberState _running_member(self)
