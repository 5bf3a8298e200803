cimport cython
from queues.pager cimport Pager
from queues.quorum.places cimport Places

cdef class QueueGroupMachine:
    cdef public Pager pager
    cdef public long long role_changes
    cdef public object _execution
    cdef public Places _places
    cdef public object _checkpoint
    cdef public object _install
    cdef public object placer
    cdef public dict _proposed
    cdef public object entry_waits
    cdef public object entry_comes
    cdef long long _waits
    cdef public object export_waits
    cdef bint _looks
    cdef dict __dict__  # checks put themselves in front of `apply`

    @cython.locals(proposed=tuple)
    cpdef void apply(self, object index, object term, bytes data, object now) except *
    cpdef object take_concerned(self)
    cpdef bint wants_checkpoint(self) except -1
    @cython.locals(data=bytes)
    cpdef bint propose(self, object log, object batch, long long now, object made=*) except -1
    @cython.locals(effects=list)
    cpdef list take_effects(self)
    cpdef object next_deadline(self)
    cpdef void end_turn(self, long long position) except *
    cpdef void synced(self, long long position) except *
