# Compiled as it is: what it does is Python's all the same.
