cimport cython
from amqp_broker.octets.buffer cimport Buffer
from queues.message cimport Message
from queues.page cimport AddressBook, put_message
from queues.effects cimport make_delivered
from queues.wire.reader cimport Reader, open_frame
from queues.wire.traffic cimport read_message

cdef int _CONFIRMED, _DELIVERED, _GET_ANSWERED, _IS_REDELIVERED
cdef Py_ssize_t _FRAME_BYTES, _COUNT_AT, _EFFECT_HEAD
cdef dict _READERS, _WRITERS

@cython.final
cdef class EffectsWriter:
    cdef unsigned long long _session
    cdef Buffer _buffer
    cdef Py_ssize_t _count
    cdef list _full

    cpdef list take(self)
    cdef int _seal(self) except -1
    cdef Py_ssize_t _open(self, int kind) except -1
    cdef int _close(self, Py_ssize_t start) except -1
    @cython.locals(start=Py_ssize_t, buffer=Buffer)
    cpdef int put_delivered(self, unsigned long long consumer, unsigned long long delivery_id, Message message,
                            bint is_redelivered, unsigned int delivery_count) except -1
    @cython.locals(start=Py_ssize_t)
    cpdef int put(self, object effect) except -1

@cython.final
cdef class EffectsReader:
    cdef Reader _reader
    cdef Reader _fields
    cdef AddressBook _addresses
    cdef Py_ssize_t _left
    cdef readonly unsigned long long session
    cdef readonly object effect
    cdef readonly Message message
    cdef readonly unsigned long long consumer
    cdef readonly unsigned long long delivery_id
    cdef readonly bint is_redelivered
    cdef readonly unsigned int delivery_count

    @cython.locals(reader=Reader, fields=Reader, kind=int)
    cpdef bint next(self) except -1
