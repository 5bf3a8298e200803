# C types of direct.py.
cimport cython
from exchanges.exchange cimport Exchange

@cython.final
cdef class DirectExchange(Exchange):
    cdef dict _routes
