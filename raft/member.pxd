cimport cython
from raft.following cimport Following
from raft.leadership cimport Leadership
from raft.member_state cimport MemberState

@cython.locals(following=Following, leading=Leadership)
cdef bint _take_usual(MemberState member, str sender, object message) except -1
