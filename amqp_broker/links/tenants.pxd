cimport cython
from raft.outbox cimport Outbox

cdef long long _VERSION, _FOREIGN, _HEAD_BYTES

@cython.final
cdef class _Sender:
    cdef dict _linked
    cdef Outbox _outbox
    cdef bytes _head
    cdef long long _since

    cpdef bint send(self, str name, bytes payload) except -1

@cython.final
cdef class Tenants:
    cdef readonly Outbox outbox
    cdef readonly dict linked
    cdef public dict receivers
    cdef object _receive_raft

    @cython.locals(receive=object)
    cpdef void receive(self, str name, bytes frame, long long now) except *
