"""What all tests share: one Hypothesis profile, and programs that hear a Ctrl-C."""

import signal

from hypothesis import settings

# The same examples on every machine, however slow it is.
settings.register_profile("makewhole", deadline=None, derandomize=True)
settings.load_profile("makewhole")

# A shell makes what it runs in the background deaf to Ctrl-C, and so the programs that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
