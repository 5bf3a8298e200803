# C types of disk.py.
cimport cython

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
    cpdef void _sync_descriptor(self, int number) except *
    cpdef void _check_writable(self) except *
    @cython.locals(known=_Descriptor, descriptor=_Descriptor)
    cpdef _Descriptor _acquire(self, object path, bint create)
    @cython.locals(is_last=bint)
    cpdef void _release(self, object path, _Descriptor descriptor) except *

@cython.locals(written=Py_ssize_t, total=Py_ssize_t)
cdef void _write_all(int descriptor, long long offset, object buffers) except *
