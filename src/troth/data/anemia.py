"""Anemia: is an anemia chronic rather than acute, by the discharge notes of MIMIC-III (Johnson et al. 2016)?

The papers validate on its own validation split; ROAR has 1,242 test notes, FMM 1,243.
"""

from dataclasses import dataclass

from troth.data._base import rows
from troth.data._mimic import MIMIC_LICENSE, MIMIC_OBTAIN
from troth.data.sources.published import Published


@dataclass(frozen=True)
class Anemia(Published):
    labels = ("acute", "chronic")
    splits = rows(train=4_262, validation=729, test=None)
    metric = "macro_f1"
    license = MIMIC_LICENSE
    obtain = MIMIC_OBTAIN
