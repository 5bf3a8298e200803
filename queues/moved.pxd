cimport cython
from amqp_broker.octets.buffer cimport Buffer
from queues.message cimport Message
from queues.page cimport put_message
from queues.store cimport MessageStore

cdef int _IS_REDELIVERED, _HAS_OCTETS

@cython.final
cdef class Move:
    cdef MessageStore _store
    cdef Buffer _buffer
    cdef Py_ssize_t _count_at
    cdef unsigned int _count

    @cython.locals(buffer=Buffer)
    cpdef int add(self, Message message, unsigned long long sequence, unsigned int returns, bint is_redelivered,
                  bint has_octets, unsigned long long queue_id, unsigned long long target,
                  long long expires_at) except -1
    @cython.locals(buffer=Buffer)
    cpdef int add_for(self, Message message, unsigned long long sequence, unsigned int returns,
                      bint is_redelivered, bint has_octets, list places) except -1
    @cython.locals(start=Py_ssize_t, buffer=Buffer)
    cdef int _put_octets(self, Message message, bint has_octets) except -1
