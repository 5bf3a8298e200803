# C types of index.py. Compiled, `data` is a pointer.
cimport cython

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030E0000
    #define octets_hash(data, count) ((unsigned long long) Py_HashBuffer(data, count))
    #else
    #if PY_VERSION_HEX >= 0x030D0000  /* exported, and in no public header */
    PyAPI_FUNC(Py_hash_t) _Py_HashBytes(const void *data, Py_ssize_t count);
    #endif
    #define octets_hash(data, count) ((unsigned long long) _Py_HashBytes(data, count))
    #endif
    """
    unsigned long long octets_hash(const void* data, Py_ssize_t count) nogil

cdef Py_ssize_t _MOST_KEYS, _FIRST_SLOTS
cdef unsigned int _NUMBER

@cython.locals(known="const unsigned char*")
cpdef bint is_same(bytes octets, const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept

@cython.final
cdef class OctetIndex:
    cdef readonly list keys
    cdef dict _numbers
    cdef bytearray _memory
    cdef unsigned long long _mask

    @cython.locals(begin="const unsigned char*", memory="unsigned char*", slots="unsigned int*",
                   hashed="unsigned long long", place="unsigned long long", slot="unsigned int",
                   number=Py_ssize_t, key=bytes)
    cpdef Py_ssize_t find(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t end) except -2
    @cython.locals(number=Py_ssize_t)
    cpdef Py_ssize_t add(self, bytes key) except -1
    cpdef int clear(self) except -1
    @cython.locals(number=Py_ssize_t, count=Py_ssize_t)
    cdef int _grow(self) except -1
    @cython.locals(memory="unsigned char*", slots="unsigned int*", octets="const unsigned char*",
                   hashed="unsigned long long", place="unsigned long long")
    cdef int _put(self, Py_ssize_t number) except -1
