# C types of records.py.
cimport cython

cdef extern from *:
    """
    #include <stdint.h>

    static void put_little(unsigned char* to, uint64_t value, int count) {
        for (; count; count--, value >>= 8)
            *to++ = (unsigned char) value;
    }

    /* What a header's checksum is over, behind room for four octets. */
    static void fill_header(unsigned char* to, uint32_t length, int version, int kind, uint32_t context,
                            uint64_t position) {
        put_little(to + 4, length, 4);
        to[8] = (unsigned char) version;
        to[9] = (unsigned char) kind;
        to[10] = to[11] = 0;
        put_little(to + 12, context, 4);
        put_little(to + 16, position, 8);
    }

    /* The length moves to the front, and the checksum to where it was. */
    static void place_checksum(unsigned char* to, uint32_t checksum) {
        int at;
        for (at = 0; at < 4; at++)
            to[at] = to[at + 4];
        put_little(to + 4, checksum, 4);
    }
    """
    void fill_header(unsigned char* to, unsigned int length, int version, int kind, unsigned int context,
                     unsigned long long position) noexcept
    void place_checksum(unsigned char* to, unsigned int checksum) noexcept

cdef int _VERSION
cdef Py_ssize_t _HEADER_BYTES

@cython.locals(octets="unsigned char[24]", length=Py_ssize_t, summed=bytes, header=bytes, crc="unsigned int")
cpdef bytes pack_header(int kind, unsigned int context, unsigned long long position, object payload)
