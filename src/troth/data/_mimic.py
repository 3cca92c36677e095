"""What the hospital notes of MIMIC-III have in common, which nobody may pass on."""

from dataclasses import dataclass

from troth.data.sources.published import Published


@dataclass(frozen=True)
class Mimic(Published):
    metric = "macro_f1"
    license = "PhysioNet credentialed health data license"
    obtain = (
        "its notes need a license: apply at https://physionet.org/content/mimiciii, prepare them as "
        "https://github.com/successar/AttentionExplanation does, and put train.jsonl, validation.jsonl and test.jsonl "
        "(text, label) in the folder, or pass a file of your own as the data"
    )
