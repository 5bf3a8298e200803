from queues.queue cimport Queue

cdef class QueueTable:
    cdef object _make
    cdef dict _entries

    cpdef Queue get(self, str name)
    cpdef Queue made(self, str name)
