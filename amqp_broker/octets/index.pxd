# C types of index.py. Compiled, `data` is a pointer.
cimport cython

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* The two halves of a product, folded: each bit of it depends on all bits of both. */
    static inline uint64_t folded(uint64_t a, uint64_t b) {
    #ifdef __SIZEOF_INT128__
        unsigned __int128 product = (unsigned __int128) a * b;
        return (uint64_t) product ^ (uint64_t) (product >> 64);
    #else
        uint64_t low = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF), high = (a >> 32) * (b >> 32);
        uint64_t one = (a >> 32) * (b & 0xFFFFFFFF), other = (a & 0xFFFFFFFF) * (b >> 32);
        uint64_t middle = (low >> 32) + (uint32_t) one + (uint32_t) other;
        high += (one >> 32) + (other >> 32) + (middle >> 32);
        return ((middle << 32) | (uint32_t) low) ^ high;
    #endif
    }

    /* A hash of up to 16 octets with two multiplications, keyed by two secret words; longer ones in steps of 16. */
    static inline uint64_t octets_hash(const unsigned char* data, size_t count, uint64_t one, uint64_t other) {
        uint64_t first = 0, second = 0, state = other ^ count;
        for (; count > 16; data += 16, count -= 16) {
            memcpy(&first, data, 8);
            memcpy(&second, data + 8, 8);
            state = folded(first ^ one, second ^ state);
        }
        if (count >= 8) {
            memcpy(&first, data, 8);
            memcpy(&second, data + count - 8, 8);
        } else if (count >= 4) {
            uint32_t half;
            memcpy(&half, data, 4);
            first = half;
            memcpy(&half, data + count - 4, 4);
            second = half;
        } else {
            first = second = 0;
            if (count) {
                first = (uint64_t) data[0] << 16 | (uint64_t) data[count >> 1] << 8 | data[count - 1];
            }
        }
        return folded(folded(first ^ one, second ^ state) ^ other, one);
    }
    """
    unsigned long long octets_hash(const unsigned char* data, size_t count, unsigned long long one,
                                   unsigned long long other) nogil
    const unsigned char* octets_of "PyBytes_AS_STRING"(void* octets) nogil
    Py_ssize_t size_of "PyBytes_GET_SIZE"(void* octets) nogil
    void* item_of "PyList_GET_ITEM"(list items, Py_ssize_t index) nogil

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
    cdef unsigned long long _one
    cdef unsigned long long _other

    @cython.locals(begin="const unsigned char*", memory="unsigned char*", slots="unsigned int*",
                   hashed="unsigned long long", place="unsigned long long", slot="unsigned int",
                   key="void*", count=Py_ssize_t, number=Py_ssize_t)
    cpdef Py_ssize_t find(self, const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept
    @cython.locals(number=Py_ssize_t)
    cpdef Py_ssize_t add(self, bytes key) except -1
    cpdef int clear(self) except -1
    @cython.locals(number=Py_ssize_t, count=Py_ssize_t)
    cdef int _grow(self) except -1
    @cython.locals(memory="unsigned char*", slots="unsigned int*", octets="const unsigned char*",
                   hashed="unsigned long long", place="unsigned long long")
    cdef int _put(self, Py_ssize_t number) except -1
