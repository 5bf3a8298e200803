# C types of disk.py.
cimport cython
from cpython.buffer cimport Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

cdef extern from *:
    """
    #include <errno.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #if defined(__linux__)
    #define amqp_broker_sync fdatasync
    #else
    #define amqp_broker_sync fsync
    #endif
    /* -1: not all was written, and nothing is synced; 0: both are done; else the errno of the sync. */
    static int vector_to_disk(int number, const struct iovec *vector, int count, long long offset, Py_ssize_t total) {
        if (pwritev(number, vector, count, (off_t) offset) != total)
            return -1;
        while (amqp_broker_sync(number))
            if (errno != EINTR)
                return errno;
        return 0;
    }
    """
    struct iovec:
        void* iov_base
        size_t iov_len
    int vector_to_disk(int number, const iovec* vector, int count, long long offset, Py_ssize_t total) nogil

@cython.final
cdef class _Descriptor:
    cdef public int number
    cdef public int users
    cdef public bint is_dirty
    cdef public bint is_cached

cdef class FileDisk:
    cdef dict __dict__
    cdef public object root
    cdef public bint is_read_only
    cdef readonly object _descriptors
    cdef readonly object _guard
    cdef str _newest
    cdef readonly object _failure

    cpdef void write(self, object path, long long offset, object buffers) except *
    @cython.locals(descriptor=_Descriptor)
    cpdef void sync(self, object path) except *
    @cython.locals(descriptor=_Descriptor, is_synced=bint)
    cpdef void write_and_sync(self, object path, long long offset, object buffers) except *
    cpdef bint _write_and_sync_descriptor(self, int number, long long offset, object buffers) except -1
    cpdef void _sync_descriptor(self, int number) except *
    cpdef void _check_writable(self) except *
    @cython.locals(known=_Descriptor, descriptor=_Descriptor)
    cpdef _Descriptor _acquire(self, object path, bint create)
    @cython.locals(is_last=bint)
    cpdef void _release(self, object path, _Descriptor descriptor) except *

@cython.locals(written=Py_ssize_t, total=Py_ssize_t)
cdef void _write_all(int descriptor, long long offset, object buffers) except *

cdef int _FEW_VECTORS

# Pieces of octets as the system wants them, and what keeps them where they are meanwhile. As many as _FEW_VECTORS.
ctypedef struct Pieces:
    iovec[64] vector
    Py_buffer[64] views

@cython.locals(pieces=Pieces, held=int, place=int, count=int, total=Py_ssize_t, failure=int)
cdef bint _to_disk(int descriptor, long long offset, object buffers) except -1
