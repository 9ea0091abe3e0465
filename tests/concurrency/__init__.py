"""Workers and producers as real processes, stopped, killed and cut off, on real databases.

Nothing here measures time: what is waited for is seen in the database or in a file, and a
deadline only ends what hangs. `soak.py` has the long versions, which no run of the suite takes.
"""
