# Compiles log.py. StreamLog is a class as any: tests put themselves in front of its methods.
