cimport cython
from queues.consumer cimport Consumer
from queues.message cimport Entry

cdef class NumberedConsumer(Consumer):
    cdef public unsigned long long next_delivery
    cdef public dict held

    @cython.locals(delivery_id="unsigned long long")
    cpdef unsigned long long keep(self, Entry entry, long long now) except 0
    @cython.locals(held=dict, entries=list, first="unsigned long long", last="unsigned long long",
                   count="unsigned long long", before="unsigned long long", offset="unsigned long long", found=tuple)
    cpdef tuple take(self, tuple ranges)
    cpdef list take_all(self)
