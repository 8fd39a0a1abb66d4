from hypothesis import settings

# The same examples in every run; machines are slow at times.
settings.register_profile("histeqd", deadline=None, derandomize=True)
settings.load_profile("histeqd")
