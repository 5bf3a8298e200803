cimport cython
from amqp_broker.octets.buffer cimport get_u32, get_u64

cdef unsigned int _VERSION, _APPEND_KIND, _APPEND_REPLY_KIND, _MEMBERSHIP
cdef unsigned long long _MAX_NUMBER
cdef Py_ssize_t _APPEND_BYTES, _ENTRY_BYTES, _APPEND_REPLY_BYTES

@cython.locals(version="unsigned int", kind="unsigned int")
cpdef object decode(bytes frame)

@cython.locals(size=Py_ssize_t, group="unsigned int", term="unsigned long long", prev_index="unsigned long long",
               prev_term="unsigned long long", commit_index="unsigned long long", count="unsigned int",
               position=Py_ssize_t, index="unsigned long long", before="unsigned long long",
               entry_term="unsigned long long", kind="unsigned int", length="unsigned int", data=bytes, entries=list)
cdef object _decode_append(bytes frame)

@cython.locals(group="unsigned int", term="unsigned long long", is_success="unsigned int", index="unsigned long long",
               index_term="unsigned long long", prev_index="unsigned long long")
cdef object _decode_append_reply(bytes frame)
