"""Who a client is and what it may touch: passwords, SASL, permissions, name patterns.

Pure: no socket, no clock, no thread, no source of randomness of its own.
"""
