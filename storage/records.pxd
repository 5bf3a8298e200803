# C types of records.py.
cimport cython

@cython.locals(length=Py_ssize_t, summed=bytes)
cpdef bytes pack_header(int kind, unsigned int context, unsigned long long position, object payload)
