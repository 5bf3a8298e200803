cimport cython

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>

    static int can_fold(void) {
        return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse2");
    }

    /* 128 bits that are some bits on: each half times what this distance leaves behind in the polynomial. */
    #define MOVED(bits, by) _mm_xor_si128(_mm_clmulepi64_si128(bits, by, 0x00), _mm_clmulepi64_si128(bits, by, 0x11))
    #define LOADED(from) _mm_loadu_si128((const __m128i*) (from))

    /* 16 octets with the remainder of data[:count], begun with crc. At least 64, a multiple of 16. */
    __attribute__((target("pclmul,sse2")))
    static void fold(const unsigned char* data, size_t count, unsigned int crc, unsigned char* rest) {
        const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
        const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
        __m128i one = _mm_xor_si128(LOADED(data), _mm_cvtsi32_si128((int) crc));
        __m128i two = LOADED(data + 16), three = LOADED(data + 32), four = LOADED(data + 48);
        for (data += 64, count -= 64; count >= 64; data += 64, count -= 64) {
            one = _mm_xor_si128(MOVED(one, by_512), LOADED(data));
            two = _mm_xor_si128(MOVED(two, by_512), LOADED(data + 16));
            three = _mm_xor_si128(MOVED(three, by_512), LOADED(data + 32));
            four = _mm_xor_si128(MOVED(four, by_512), LOADED(data + 48));
        }
        two = _mm_xor_si128(MOVED(one, by_128), two);
        three = _mm_xor_si128(MOVED(two, by_128), three);
        four = _mm_xor_si128(MOVED(three, by_128), four);
        for (; count; data += 16, count -= 16) {
            four = _mm_xor_si128(MOVED(four, by_128), LOADED(data));
        }
        _mm_storeu_si128((__m128i*) rest, four);
    }
    #else
    static int can_fold(void) { return 0; }
    static void fold(const unsigned char* data, size_t count, unsigned int crc, unsigned char* rest) {}
    #endif
    """
    bint can_fold() noexcept nogil
    void fold(const unsigned char* data, size_t count, unsigned int crc, unsigned char* rest) noexcept nogil

cdef Py_ssize_t _HEADER_BYTES, _STEP, _LEAST_FOLDED
cdef bint _CAN_FOLD
cdef bytes _TABLES
# The octets of _TABLES, to be read without the interpreter.
cdef const unsigned char* _TABLE_OCTETS

@cython.locals(source="const unsigned char*", size=Py_ssize_t, position=Py_ssize_t, end=Py_ssize_t, crc="unsigned int",
               number=Py_ssize_t)
cpdef Py_ssize_t first_wrong(bytes data, Py_ssize_t count) except -2

@cython.locals(value="unsigned int")
cdef unsigned int _number(const unsigned char* source, Py_ssize_t position) noexcept nogil

@cython.locals(rest="unsigned char[16]", count=Py_ssize_t)
cdef unsigned int _crc(const unsigned char* source, Py_ssize_t position, Py_ssize_t end, unsigned int crc) noexcept nogil

@cython.locals(tables="const unsigned int*", first="unsigned int", second="unsigned int", third="unsigned int",
               fourth="unsigned int")
cdef unsigned int _remainder(const unsigned char* source, Py_ssize_t position, Py_ssize_t end,
                             unsigned int crc) noexcept nogil
