cimport cython
from amqp_broker.connection.connection cimport Connection

@cython.locals(connection=Connection, all_wait=bint, is_blocked=bint, is_waiting=bint, is_paused=bint)
cpdef void choose_readers(object node, bint is_behind, object home_backlog) except *
