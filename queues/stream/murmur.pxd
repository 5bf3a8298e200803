# C types of murmur.py.
cimport cython

cdef unsigned long long _SEED, _MASK, _C1, _C2

@cython.locals(octets="const unsigned char*", size=Py_ssize_t, whole=Py_ssize_t, at=Py_ssize_t,
               part="unsigned long long", found="unsigned long long")
cpdef unsigned long long murmur3(bytes key, unsigned long long seed)
cpdef Py_ssize_t partition_of(bytes key, Py_ssize_t partitions) except -1
