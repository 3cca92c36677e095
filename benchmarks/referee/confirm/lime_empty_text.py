"""LIME on an empty text raises an error of NumPy instead of saying that there is nothing to explain."""

import numpy as np
from _tiny import say
from lime.lime_text import LimeTextExplainer

try:
    LimeTextExplainer().explain_instance("", lambda texts: np.tile([0.4, 0.6], (len(texts), 1)))
except ValueError as error:
    say("empty" not in str(error).lower(), f"ValueError: {error}")
say(False, "no error")
