"""What is known of failures: their issues, bugs that users met before, and libraries that are not in the table."""

from __future__ import annotations

ISSUES = {
    ("shap", "bytes_of_words"): "Known as [shap#2849](https://github.com/shap/shap/issues/2849).",
    ("shap", "random_state_kept"): "Related: [shap#4607](https://github.com/shap/shap/issues/4607).",
    ("transformers_interpret", "long_text"): (
        "Known as [transformers-interpret#95](https://github.com/cdpierse/transformers-interpret/issues/95)."
    ),
}

# Scripts in confirm/: the library whose environment runs each, the issue, and what is shown.
KNOWN = {
    "shap_bytes_of_words": (
        "shap",
        "[shap#2849](https://github.com/shap/shap/issues/2849)",
        "a character of several tokens is repeated in the masked text",
    ),
    "known_shap_zeros": (
        "shap",
        "[shap#3217](https://github.com/shap/shap/issues/3217)",
        "all values are 0 where the tokenizer writes a token of beginning and none of end",
    ),
    "known_captum_softmax": (
        "captum",
        "[captum#519](https://github.com/meta-pytorch/captum/issues/519)",
        "DeepLift through a softmax layer misses completeness",
    ),
    "known_transformers_interpret_sigmoid": (
        "transformers_interpret",
        "[transformers-interpret#107](https://github.com/cdpierse/transformers-interpret/issues/107)",
        "labels of a multi-label model are explained by a softmax",
    ),
    "known_inseq_batch": (
        "inseq",
        "[inseq#110](https://github.com/inseq-team/inseq/issues/110)",
        "scores of a text differ alone and in a batch",
    ),
}

NOT_HERE = {
    "inseq, icx360, context-cite": (
        "they explain what a model generates; the referee asks about classifiers. What is known of inseq's batches is "
        "run above."
    ),
    "lxt": "its method is patented, so it is not run here.",
}
