# C types of headers.py.
cimport cython

from exchanges.exchange cimport Exchange

cdef Py_ssize_t _MOST_WAITING, _MOST_STEPS
cdef long long _MERE_PRESENCE, _NEW_NAME

cdef class Rule:
    cdef readonly dict destinations
    cdef tuple path
    cdef tuple rest

cdef class Place:
    cdef Rule complete
    cdef list waiting
    cdef public dict steps
    cdef Py_ssize_t count

cdef class HeadersExchange(Exchange):
    cdef dict _rules
    cdef dict _any
    cdef Place _all
    cdef readonly unsigned long long examined

    @cython.locals(found=dict)
    cpdef list matches(self, str routing_key, object facts)
    @cython.locals(index=dict, by_value=dict, rules=dict, rule=Rule)
    cdef int _match_any(self, object headers, dict found) except -1
    @cython.locals(places=list, place=Place, following=Place, steps=dict, by_value=dict, rule=Rule)
    cdef int _match_all(self, object headers, dict found) except -1
    cdef int _reach(self, Rule rule, dict found) except -1

cdef bint _holds(tuple fields, object headers) except -1
@cython.locals(entering=list, place=Place, moving=list)
cdef void _enter(Place root, Rule rule) except *
@cython.locals(taken=tuple, field=tuple, fewest="long long", count="long long", by_value=dict, following=Place)
cdef Place _next_place(dict steps, Rule rule)
@cython.locals(place=Place, following=Place, steps=dict)
cdef void _leave(Place root, Rule rule) except *
