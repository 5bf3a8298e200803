cimport cython

cdef extern from "<sys/socket.h>" nogil:
    Py_ssize_t recv(int number, void* target, size_t most, int flags)
    Py_ssize_t send(int number, const void* source, size_t count, int flags)

cdef int _NO_SIGNAL
cdef Py_ssize_t _SHORT_BYTES

@cython.locals(target="unsigned char*", count=Py_ssize_t)
cpdef Py_ssize_t receive_into(object client, int number, bytearray data, Py_ssize_t start, Py_ssize_t most,
                               int flags) except -1
@cython.locals(source="const unsigned char*", count=Py_ssize_t, octets=bytes)
cpdef bytes receive_octets(object client, int number, bytearray room, Py_ssize_t most)
@cython.locals(source="const unsigned char*", count=Py_ssize_t, size=Py_ssize_t)
cpdef Py_ssize_t send_bytes(object client, int number, bytes octets) except -1
@cython.locals(size=Py_ssize_t)
cpdef bint drop_sent(object unsent, Py_ssize_t sent) except -1
cpdef double monotonic_time() except? -1
