# C types of entries.py.
cimport cython

@cython.locals(position=Py_ssize_t, length=Py_ssize_t, kind="unsigned int", entries=list)
cpdef list entries_of(object segment, bytes data, Py_ssize_t start, Py_ssize_t end)
