cimport cython
from amqp_broker.server.peer_link cimport PeerLink

@cython.final
cdef class Backoff:
    cdef object _random_source
    cdef double _delay_s

@cython.final
cdef class Member:
    cdef readonly str name
    cdef public object address
    cdef public PeerLink link
    cdef public PeerLink attempt
    cdef public PeerLink candidate
    cdef public object task
    cdef readonly object lacks_link
    cdef readonly Backoff backoff
    cdef public long long last_epoch
    cdef public str last_failure
    cdef public bint is_cold

@cython.final
cdef class Expected:
    cdef object _members
    cdef object _farewell

@cython.final
cdef class PeerLinks:
    cdef readonly object config
    cdef readonly object identity
    cdef readonly object credentials
    cdef readonly object entropy
    cdef readonly dict members
    cdef public PeerLinks beside
    cdef readonly Expected expected
    cdef readonly object callbacks
    cdef readonly bytearray room
    cdef dict _parted
    cdef object _random_source
    cdef object _loop
    cdef list _listeners
    cdef list _accepting
    cdef dict _pending
    cdef readonly bint calls_nobody
    cdef object _timer

    @cython.locals(member=Member)
    cpdef bint send(self, str node_id, list payloads) except -1
