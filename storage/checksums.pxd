cimport cython

cdef Py_ssize_t _HEADER_BYTES, _STEP
cdef bytes _TABLES
# The octets of _TABLES, to be read without the interpreter.
cdef const unsigned char* _TABLE_OCTETS

@cython.locals(source="const unsigned char*", size=Py_ssize_t, position=Py_ssize_t, end=Py_ssize_t, crc="unsigned int",
               number=Py_ssize_t)
cpdef Py_ssize_t first_wrong(bytes data, Py_ssize_t count) except -2

@cython.locals(value="unsigned int")
cdef unsigned int _number(const unsigned char* source, Py_ssize_t position) noexcept nogil

@cython.locals(tables="const unsigned int*", first="unsigned int", second="unsigned int", third="unsigned int",
               fourth="unsigned int")
cdef unsigned int _crc(const unsigned char* source, Py_ssize_t position, Py_ssize_t end, unsigned int crc) noexcept nogil
