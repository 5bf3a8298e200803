# C types of topic.py.
cimport cython

from exchanges.exchange cimport Exchange

cdef class Node:
    cdef dict children
    cdef Node star
    cdef Node hash
    cdef readonly dict destinations
    cdef bint repeats
    cdef unsigned long long stamp

    cpdef bint is_empty(self)
    cpdef Node child(self, object word)
    cpdef Node add_child(self, object word)

cdef class TopicExchange(Exchange):
    cdef Node _root
    cdef unsigned long long _stamp
    cdef readonly Py_ssize_t node_count
    cdef readonly unsigned long long visited

    @cython.locals(active=list, following=list, node=Node, child=Node)
    cpdef list matches(self, str routing_key, object facts)

    @cython.locals(reached=Node)
    cdef void _enter(self, Node node, list active) except *

    @cython.locals(node=Node, found=dict, is_shared=bint)
    cdef list _destinations_of(self, list active)
