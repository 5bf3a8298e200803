# C types of stream_end.py. StreamEnd is what Stream, which is a class as any, has of them.
from queues.stream.chunk cimport Chunk
from queues.stream.marks cimport Marks, Step
from queues.stream.tail cimport Tail, add_chunk

cdef class StreamEnd:
    cdef public unsigned long long queue_id
    cdef public Tail log
    cdef public Marks marks
    cdef public Step step
    cdef public dict followers

cpdef bint append_plain(StreamEnd end, Chunk chunk, long long clock) except -1
