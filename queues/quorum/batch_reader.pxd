cimport cython
from queues.message cimport Message
from queues.page cimport AddressBook
from queues.quorum.commands cimport get_command
from queues.wire.reader cimport Reader
from queues.wire.traffic cimport read_message

cdef int _ENQUEUE, _LEADERS_FIRST, _LEADERS_LAST

@cython.final
cdef class BatchReader:
    cdef Reader _reader
    cdef Reader _fields
    cdef AddressBook _addresses
    cdef Py_ssize_t _left
    cdef readonly str origin
    cdef readonly unsigned long long session
    cdef readonly unsigned long long first
    cdef readonly Message message
    cdef readonly object command
    cdef readonly unsigned long long queue_id
    cdef readonly list queue_ids

    @cython.locals(reader=Reader, fields=Reader, kind=int)
    cpdef bint next(self) except -1
    @cython.locals(count=int)
    cdef int _get_enqueue(self, Reader fields) except -1
