cimport cython
from raft.log cimport EntryLog
from raft.member_state cimport MemberState
from raft.progress cimport Progress

cdef class Leadership:
    cdef public MemberState member
    cdef public long long term
    cdef public long long first_index
    cdef public dict progress
    cdef public bint is_transferring
    cdef public long long transfers_given_up
    cdef str _transfer_to
    cdef long long _transfer_deadline
    cdef bint _was_told_to_stand
    cdef long long _install_count
    cdef dict _shared
    cdef list _others
    cdef bint _is_voter
    cdef Py_ssize_t _majority
    cdef bint _has_learners
    cdef public long long notice_at
    cdef public long long disk_due_at
    cdef long long _awaited_index
    cdef bint _is_overdue
    cdef readonly bint is_resting
    cdef long long _seen_index
    cdef long long _unsent_bytes

    cpdef bint propose(self, bytes data) except -1
    @cython.locals(member=MemberState, progress=Progress, index="long long", matches=list)
    cpdef int advance_commit(self) except -1
    @cython.locals(member=MemberState, each=Progress, lags=list, slowest=double, before=double)
    cpdef bint needs_own_disk(self, double disk_lag_ms=*) except -1
    @cython.locals(progress=Progress)
    cpdef void on_append_reply(self, str sender, object reply) except *
    @cython.locals(progress=Progress)
    cpdef bint on_beat_reply(self, str sender, long long sent_index, long long match_index) except -1
    cdef int _matched(self, Progress progress, long long index) except -1
    @cython.locals(member=MemberState, progress=Progress, commit_index="long long", last_index="long long",
                   may_rest=bint, is_due=bint, concerns_all=bint, is_waiting=bint, is_told_now=bint, notices=list)
    cpdef list end_turn(self, double disk_lag_ms=*)
    @cython.locals(member=MemberState, needed=Py_ssize_t, each=Progress, ready=list)
    cdef bint _choose_needed(self, double disk_lag_ms) except -1
    @cython.locals(each=Progress, clock="long long")
    cdef int _note_delay(self) except -1
    @cython.locals(log=EntryLog, limit="long long", size="long long", entry=tuple, data=bytes, entries=list)
    cdef void _send_entries(self, str name, Progress progress) except *
    @cython.locals(member=MemberState, log=EntryLog)
    cdef object _append_from(self, long long next_index)
