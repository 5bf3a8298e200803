# C types of exchange.py.

cdef class Exchange:
    cdef readonly object arguments
    cdef Py_ssize_t _bound
    cdef Py_ssize_t _changes
    cdef readonly dict _held
    cdef dict _leaving
    cdef dict _renamed
    cdef public bint routes_by_headers
    cdef public bint routes_by_properties
    cdef public bint reads_every_key
    cdef public bint delays

    cpdef list matches(self, str routing_key, object facts)
    cpdef list reached(self, str routing_key, object facts)
