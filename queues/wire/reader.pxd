cimport cython
from amqp_broker.octets.buffer cimport get_u16, get_u32, get_u64

@cython.final
cdef class Reader:
    cdef public bytes data
    cdef public Py_ssize_t position
    cdef public Py_ssize_t end
    cdef public int kind
    cdef str _what

    @cython.locals(kind=int, length=Py_ssize_t, start=Py_ssize_t)
    cpdef int enter(self, Reader whole) except -1
    cpdef object fail(self, str reason)
    @cython.locals(start=Py_ssize_t)
    cpdef Py_ssize_t skip(self, Py_ssize_t count) except -1
    @cython.locals(start=Py_ssize_t, data="const unsigned char*")
    cpdef int u8(self) except -1
    @cython.locals(start=Py_ssize_t)
    cpdef int u16(self) except -1
    @cython.locals(start=Py_ssize_t)
    cpdef unsigned int u32(self) except? 0xFFFFFFFF
    @cython.locals(start=Py_ssize_t)
    cpdef unsigned long long u64(self) except? 0xFFFFFFFFFFFFFFFF
    @cython.locals(value="long long")
    cpdef int i32(self) except? -1
    @cython.locals(value=int)
    cpdef int flags(self, int known) except -1
    @cython.locals(start=Py_ssize_t)
    cpdef bytes octets(self, Py_ssize_t count)
    cpdef bytes rest(self)
    @cython.locals(length=Py_ssize_t)
    cpdef bytes short(self)
    cpdef str name(self)
    @cython.locals(count=Py_ssize_t)
    cpdef Py_ssize_t count(self, Py_ssize_t octets_each) except -1
    @cython.locals(version=int)
    cpdef int check_version(self, int known) except -1
    cpdef int finish(self) except -1

@cython.locals(reader=Reader)
cpdef Reader open_frame(bytes data, str what, int version)
cpdef bytes octets_of(str name)
