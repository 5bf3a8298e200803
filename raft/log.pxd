# The class is Python's, because pysyncobj's is.
from raft.journal_records cimport put_entry
