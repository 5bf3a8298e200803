cimport cython
from amqp_broker.octets.buffer cimport get_u16, get_u32, get_u64
from queues.message cimport Entry, Message, make_entry
from queues.page cimport AddressBook, get_message

@cython.final
cdef class RecoveredQueue:
    cdef public unsigned long long next_sequence
    cdef public dict entries
    cdef public dict pages
    cdef public unsigned int pages_segment
    cdef public list settled
    cdef public dict returned
    cdef public list items
    cdef public unsigned long long source_id
    cdef public unsigned long long moved_from

cdef class Recovery:
    cdef public dict queues
    cdef public dict leases
    cdef public dict notes
    cdef public dict last_letters
    cdef public list undone
    cdef object _pager
    cdef AddressBook _addresses

    cpdef RecoveredQueue queue(self, unsigned long long queue_id)
    @cython.locals(data="const unsigned char*", count=Py_ssize_t, start=Py_ssize_t, index=Py_ssize_t, position=Py_ssize_t,
                   message=Message, entry=Entry, queue=RecoveredQueue, sequence="unsigned long long")
    cdef void _take_enqueue(self, unsigned int segment, bytes payload) except *
    @cython.locals(data="const unsigned char*", count=Py_ssize_t, places=Py_ssize_t, index=Py_ssize_t,
                   position=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t, flags=int, returns="unsigned int",
                   relies_on="unsigned int", message=Message, entry=Entry, original=Entry, source=RecoveredQueue,
                   queue=RecoveredQueue, sequence="unsigned long long", target="unsigned long long",
                   source_id="unsigned long long")
    cdef void _take_moved(self, unsigned int segment, bytes payload) except *
    @cython.locals(data="const unsigned char*", place=Py_ssize_t, position=Py_ssize_t, original=Entry, is_stored=bint,
                   source=RecoveredQueue, log=RecoveredQueue, sequence="unsigned long long", begin="unsigned long long",
                   target="unsigned long long", source_id="unsigned long long", first="unsigned long long")
    cdef void _take_moved_page(self, unsigned int segment, bytes payload) except *
    cdef void _record_moved(self, unsigned long long source_id, RecoveredQueue source, unsigned long long sequence) except *
