"""Anemia: is an anemia chronic rather than acute, by the discharge notes of MIMIC-III (Johnson et al. 2016)?

The papers validate on its own validation split; ROAR has 1,242 test notes, FMM 1,243.
"""

from dataclasses import dataclass

from troth.data._base import rows
from troth.data._mimic import Mimic


@dataclass(frozen=True)
class Anemia(Mimic):
    labels = ("acute", "chronic")
    splits = rows(train=4_262, validation=729, test=None)
