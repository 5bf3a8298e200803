# C types of buffer.py. Compiled, `data` of the get functions and `source` of put_range are pointers.
cimport cython

cdef unsigned int get_u16(const unsigned char* data, Py_ssize_t position) noexcept
@cython.locals(value="unsigned int")
cdef unsigned int get_u32(const unsigned char* data, Py_ssize_t position) noexcept
@cython.locals(high="unsigned long long")
cdef unsigned long long get_u64(const unsigned char* data, Py_ssize_t position) noexcept

@cython.final
cdef class Buffer:
    cdef public bytearray data
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t length

    cpdef int reserve(self, Py_ssize_t count) except -1

    @cython.locals(target="unsigned char*")
    cpdef int put_u8(self, unsigned int value) except -1

    @cython.locals(target="unsigned char*", position=Py_ssize_t)
    cpdef int put_u16(self, unsigned int value) except -1

    cpdef int put_u32(self, unsigned int value) except -1
    cpdef int put_u64(self, unsigned long long value) except -1

    @cython.locals(target="unsigned char*")
    cpdef void set_u16(self, Py_ssize_t position, unsigned int value) noexcept

    @cython.locals(target="unsigned char*")
    cpdef void set_u32(self, Py_ssize_t position, unsigned int value) noexcept

    @cython.locals(target="unsigned char*", source="const unsigned char*", count=Py_ssize_t)
    cpdef int put_bytes(self, bytes value) except -1

    @cython.locals(target="unsigned char*")
    cdef int put_range(self, const unsigned char* source, Py_ssize_t start, Py_ssize_t end) except -1

    cpdef Py_ssize_t put_joined(self, object pieces) except -1

    @cython.locals(target="unsigned char*", source="const unsigned char*", start=Py_ssize_t, position=Py_ssize_t)
    cpdef Py_ssize_t put_framed(self, const unsigned char* head, Py_ssize_t head_size, unsigned long long number,
                                 unsigned int flag, bytes tail, bytes rest) except -1

    cpdef int put_shortstr(self, bytes value) except -1
    cpdef int put_longstr(self, bytes value) except -1
    cpdef bytes get_bytes(self, Py_ssize_t start, Py_ssize_t end)

    @cython.locals(source="const unsigned char*")
    cpdef bytes take(self)
    cpdef void clear(self)
    cpdef int cut(self, Py_ssize_t length) except -1

    @cython.locals(target="unsigned char*")
    cpdef int drop_front(self, Py_ssize_t count) except -1
