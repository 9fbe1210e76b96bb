from hypothesis import settings

# the same examples every time, and as long as they need on a busy machine
settings.register_profile("ci", derandomize=True, deadline=None)
