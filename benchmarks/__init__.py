"""The project's measurements: what is run, against whom, and what must hold. Results are committed in
results/.
"""
