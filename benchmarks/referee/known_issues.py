"""The issues of failures, bugs that users reported earlier, and libraries that are not in the table."""

from __future__ import annotations

ISSUES = {
    ("shap", "bytes_of_words"): "Known as [shap#2849](https://github.com/shap/shap/issues/2849).",
    ("ferret", "bytes_of_words"): "Caused by [shap#2849](https://github.com/shap/shap/issues/2849).",
    ("interpreto", "linear_model"): (
        "Since [interpreto#90](https://github.com/FOR-sight-ai/interpreto/pull/90) there are at most 2ⁿ samples of n "
        "words, drawn with replacement, and for two words always with exactly one of them."
    ),
    ("shap", "random_state_kept"): "Related: [shap#4607](https://github.com/shap/shap/issues/4607).",
    ("transformers_interpret", "long_text"): (
        "Known as [transformers-interpret#95](https://github.com/cdpierse/transformers-interpret/issues/95)."
    ),
}

# Scripts in confirm/: the environments that run each (an affected version first, where there is one), the package, the
# issue, and the bug.
KNOWN = {
    "shap_bytes_of_words": (
        ("ferret", "shap"),
        "shap",
        "[shap#2849](https://github.com/shap/shap/issues/2849)",
        "a character of several tokens is repeated in the masked text",
    ),
    "known_shap_zeros": (
        ("ferret", "shap"),
        "shap",
        "[shap#3217](https://github.com/shap/shap/issues/3217)",
        "all values are 0 if the tokenizer adds a token at the beginning and none at the end",
    ),
    "known_captum_softmax": (
        ("captum",),
        "captum",
        "[captum#519](https://github.com/meta-pytorch/captum/issues/519)",
        "the scores of DeepLift through a softmax layer do not sum to the change of the output",
    ),
    "known_transformers_interpret_sigmoid": (
        ("transformers_interpret_0_9", "transformers_interpret"),
        "transformers-interpret",
        "[transformers-interpret#107](https://github.com/cdpierse/transformers-interpret/issues/107)",
        "labels of a multi-label model are explained through a softmax",
    ),
    "known_inseq_batch": (
        ("inseq",),
        "inseq",
        "[inseq#110](https://github.com/inseq-team/inseq/issues/110)",
        "a text gets different scores alone and in a batch; inseq 0.7.1 explains given continuations one by one",
    ),
}

NOT_HERE = {
    "icx360": (
        "its explainers of parts of a text (MExGen) split the text with a spaCy model that must be downloaded, so they "
        "do not run from the package index alone."
    ),
    "lxt": "its method is patented, so it is not run here.",
}
