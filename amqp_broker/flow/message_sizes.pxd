cpdef int class_of(unsigned long long size) noexcept
