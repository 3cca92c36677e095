"""shapiq's exact computer on a game without players, as an empty text is, ends in an index error."""

import numpy as np
from _tiny import say
from shapiq import ExactComputer

try:
    ExactComputer(lambda coalitions: np.zeros(len(coalitions)), n_players=0)("SV", 1)
except IndexError as error:
    say(True, f"IndexError: {error}")
say(False, "no error")
