"""Anemia: is an anemia chronic rather than acute, according to the discharge notes of MIMIC-III (Johnson et al. 2016)?

The papers validate on its own validation split; ROAR has 1,242 test notes, FMM 1,243.
"""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Mimic(Published):
    """The common base of the data sets of hospital notes from MIMIC-III, which may not be redistributed."""

    metric = "macro_f1"
    license = "PhysioNet credentialed health data license"
    obtain = (
        "its notes need a license: apply at https://physionet.org/content/mimiciii, prepare them as "
        "https://github.com/successar/AttentionExplanation does, and put train.jsonl, validation.jsonl and test.jsonl "
        "(text, label) in the folder, or pass a file of your own as the data"
    )


@dataclass(frozen=True)
class Anemia(Mimic):
    labels = ("acute", "chronic")
    splits = rows(train=4_262, validation=729, test=None)
