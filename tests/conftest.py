import os

from hypothesis import settings

# beside other processes, one thread; torch reads this when it is imported, which comes later
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# the same examples every time, and as long as they need on a busy machine
settings.register_profile("ci", derandomize=True, deadline=None)
