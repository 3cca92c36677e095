"""Diabetes: does a patient have diabetes, by the discharge notes of MIMIC-III (Johnson et al. 2016)?

The papers validate on its own validation split.
"""

from dataclasses import dataclass

from troth.data._base import rows
from troth.data._mimic import MIMIC_LICENSE, MIMIC_OBTAIN
from troth.data.sources.published import Published


@dataclass(frozen=True)
class Diabetes(Published):
    labels = ("no", "yes")
    splits = rows(train=8_066, validation=1_573, test=1_729)
    metric = "macro_f1"
    license = MIMIC_LICENSE
    obtain = MIMIC_OBTAIN
