"""The words of a report in one sentence each."""

TERMS = {
    "faithful": "An explanation is faithful if the words it ranks first are those that the model really relied on.",
    "explainer": "A method that gives every unit of a text a score: how much it mattered for one class.",
    "unit": "What is scored and erased: a word, a token, a sentence or a passage.",
    "erase": "To take units away from the input, by a mask token or in another way, and ask the model again.",
    "masking": "How a unit is erased: replaced by a mask token, deleted, set to zero and so on.",
    "target": "The class whose probability is explained, usually the one that the model predicts.",
    "interval": "95 % bootstrap interval over examples: where the number would lie with other examples of this kind.",
    "letters": "Explainers that share a letter do not differ significantly on that metric.",
    "random": "Scores drawn by chance. An explainer that is no better than random explains nothing.",
    "passes": "How many times the model is asked per example, forward and backward.",
    "validity": "Whether the erased inputs still look like what the model was trained on; if not, a metric may measure "
    "confusion instead of faithfulness.",
    "diagnosticity": "How often a metric puts a real explanation before a random one. Half: it cannot tell them apart.",
    "ACU": "Area between the curves of performance under erasure: random order minus the explainer's order.",
    "RACU": "ACU relative to an explanation that takes all performance away at once.",
    "agreement": "Of explainers: rank correlation of what matters in a text; of metrics: Kendall's τ of rankings.",
    "calibration": "Whether the model is right as often as it is sure. The error is the mean distance between the two.",
    "plausibility": "Agreement with what people marked; it says nothing about what the model relied on.",
    "p-value": "How likely so unusual an input is among inputs of the kind the model was trained on.",
}

VALIDITY = {
    "no evidence against": "The erased inputs were tested and look like what the model was trained on.",
    "out of distribution": "The erased inputs look unlike what the model was trained on: this number may measure the "
    "model's confusion instead of faithfulness.",
    "not tested": "Nobody tested whether these erased inputs look like what the model was trained on.",
}
