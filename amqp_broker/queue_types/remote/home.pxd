cimport cython
from amqp_broker.queue_types.remote.home_session cimport HomeSession
from queues.classic cimport ClassicQueue
from queues.page cimport AddressBook
from queues.pager cimport Pager
from queues.quorum.batch_reader cimport BatchReader

cdef class Home:
    cdef object _vhosts
    cdef object _find_queue
    cdef object _remove_queue
    cdef Pager _pager
    cdef object _background
    cdef object _clock
    cdef object _send_frame
    cdef public dict sessions
    cdef unsigned long long _executed_before
    cdef dict _awaiting
    cdef dict _leaving
    cdef object _starved
    cdef object _watched
    cdef AddressBook _addresses
    cdef dict _held
    cdef public dict withheld
    cdef bint _is_blocked
    cdef bint _is_started
    cdef list _early
    cdef public dict touched

    cpdef void receive_commands(self, str node, bytes payload, long long now) except *
    @cython.locals(session=HomeSession, batch=BatchReader)
    cdef void _run(self, str node, bytes payload, long long now) except *
    cdef HomeSession _open(self, str node, unsigned long long number)
    @cython.locals(session=HomeSession)
    cdef void _close(self, str node) except *
    @cython.locals(session=HomeSession, touched=dict)
    cpdef int end_turn(self, long long position, bint is_blocked, long long now) except -1
    cpdef ClassicQueue find(self, unsigned long long queue_id)
