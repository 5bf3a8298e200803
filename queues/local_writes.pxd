cimport cython
from queues.classic cimport ClassicQueue
from queues.message cimport Message
from queues.store cimport MessageStore
from queues.write_group cimport WriteGroup

cdef int _TAKEN, _STORED, _REFUSED

cdef class LocalWrites(WriteGroup):
    @cython.locals(outcome=int, queue=ClassicQueue, segment="unsigned int", accepting=list, refusing=set, places=list,
                   store=MessageStore)
    cpdef int publish(self, Message message, list queues, object receipt, bint is_again, long long now) except -1
