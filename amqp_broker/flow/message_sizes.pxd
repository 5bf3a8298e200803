cimport cython

cpdef int class_of(unsigned long long size) noexcept
@cython.locals(bound="unsigned long long")
cpdef unsigned long long bound_of(int number) noexcept
