"""Diabetes: does a patient have diabetes, according to the discharge notes of MIMIC-III (Johnson et al. 2016)?

The papers validate on its own validation split.
"""

from dataclasses import dataclass

from troth.data._base import rows
from troth.data.anemia import Mimic


@dataclass(frozen=True)
class Diabetes(Mimic):
    labels = ("no", "yes")
    splits = rows(train=8_066, validation=1_573, test=1_729)
