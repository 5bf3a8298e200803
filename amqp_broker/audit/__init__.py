"""The audit log: who changed what, from where, and with which outcome."""
