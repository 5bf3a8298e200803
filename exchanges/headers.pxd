# C types of headers.py.
cimport cython

from exchanges.exchange cimport Exchange

cdef class Rule:
    cdef object destination
    cdef readonly tuple indexed
    cdef tuple rest

cdef class HeadersExchange(Exchange):
    cdef dict _rules
    cdef dict _index
    cdef dict _always
    cdef readonly unsigned long long examined

    @cython.locals(found=dict, rule=Rule)
    cpdef list matches(self, str routing_key, object facts)

    cdef void _find(self, dict by_value, object value, object headers, dict found) except *

    @cython.locals(rule=Rule)
    cdef void _verify(self, dict rules, object headers, dict found) except *
