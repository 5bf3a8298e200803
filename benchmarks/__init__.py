"""The project's measurements: what is run, against whom, and what must hold. The newest result of
each kind is committed in results/, under a name that stays; git has those before.
"""
