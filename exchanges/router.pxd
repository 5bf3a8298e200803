# C types of router.py.
cimport cython

from exchanges.exchange cimport Exchange

@cython.final
cdef class Route:
    cdef public list queues
    cdef public bint is_cacheable
    cdef public list delayed

@cython.final
cdef class ExchangeEntry:
    cdef public str name
    cdef public Exchange exchange
    cdef public bint durable
    cdef public bint auto_delete
    cdef public bint internal
    cdef public str alternate
    cdef public bint was_bound
    cdef public object arguments
    cdef public long long published_in
    cdef public long long published_out

@cython.final
cdef class Router:
    cdef public Py_ssize_t binding_count
    cdef public object names
    cdef object _touched
    cdef object _later
    cdef dict _forgetting
    cdef dict _removed
    cdef bint _is_at_it
    cdef dict _targets
    cdef dict _alternates
    cdef dict _entries
    cdef dict _sources

    @cython.locals(entry=ExchangeEntry, exchange=Exchange, destinations=list, queues=list)
    cpdef Route route(self, object exchange_name, object routing_keys, object facts, bint follow_delayed=*)

    @cython.locals(entry=ExchangeEntry, exchange=Exchange, destinations=list, queues=dict, delayed=list,
                   visited=dict, pending=list, following=list, is_cacheable=bint)
    cdef Route _walk(self, ExchangeEntry first, object routing_keys, object facts, bint follow_delayed)
