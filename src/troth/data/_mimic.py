"""How to get the hospital notes of MIMIC-III, which nobody may pass on."""

MIMIC_LICENSE = "PhysioNet credentialed health data license"
MIMIC_OBTAIN = (
    "its notes need a license: apply at https://physionet.org/content/mimiciii, prepare them as "
    "https://github.com/successar/AttentionExplanation does, and put train.jsonl, validation.jsonl and test.jsonl "
    "(text, label) in the folder, or pass a file of your own as the data"
)
