# C types of log_queue.py.
from queues.message cimport Delivery
from queues.queue cimport Queue

cdef class LogQueue(Queue):
    cdef public dict consumers
    cdef set _joining

    cpdef int dispatch(self, long long now) except -1
    cpdef int reject(self, Delivery delivery, long long now) except -1
    cpdef int put_back(self, list deliveries, long long now) except -1
