"""The driver: the only place with sockets, threads, signals and TLS. It runs a Node on asyncio, or better on uvloop."""
