cimport cython
from amqp_broker.octets.buffer cimport Buffer

@cython.locals(data=bytes)
cpdef int put_entry(Buffer buffer, unsigned int group_id, tuple entry) except -1
