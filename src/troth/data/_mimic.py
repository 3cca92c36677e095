"""How to come by the hospital notes of MIMIC-III, which nobody may pass on."""

MIMIC_LICENCE = "PhysioNet credentialed health data licence"
MIMIC_OBTAIN = (
    "its notes need a licence: apply at https://physionet.org/content/mimiciii, prepare them as "
    "https://github.com/successar/AttentionExplanation does, and put train.jsonl, validation.jsonl and test.jsonl "
    "(text, label) in the folder, or pass a file of your own as the data"
)
