# C types of direct.py.
from exchanges.exchange cimport Exchange

cdef class DirectExchange(Exchange):
    cdef dict _routes
