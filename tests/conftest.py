import os
import signal

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import hypothesis
import torch

# Two cores thrash when each test spreads over both.
torch.set_num_threads(1)

# Time is measured elsewhere; here a busy machine must not fail a test.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# Started in the background by a shell, a process ignores Ctrl-C, and so would all it starts; the tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)
