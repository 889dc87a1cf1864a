"""What all tests share: one Hypothesis profile. The same examples on every machine, however slow it is."""

from hypothesis import settings

settings.register_profile("makewhole", deadline=None, derandomize=True)
settings.load_profile("makewhole")
