# C types of exchange.py.

cdef class Exchange:
    cdef readonly object arguments
    cdef readonly dict _held
    cdef public bint routes_by_headers
    cdef public bint reads_every_key
    cdef public bint delays

    cpdef list matches(self, str routing_key, object facts)
