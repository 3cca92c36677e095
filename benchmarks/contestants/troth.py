"""Ours: all texts together. The setting `fast` is `load_model(…, precision="fast")`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from works import AOPC_RATIOS

import troth
from contestants.base import Peer, prompt_of

EXPLAINERS = {
    "beam_search": "beam_search(width={width}, objective=comp_minus_suff, of=probability, drop_duplicates=false)",
    "integrated_gradients": "integrated_gradients(steps={steps})",
    "lime": "lime(samples={samples})",
    "kernel_shap": "kernel_shap(samples={samples})",
    "causal_leave_one_out": "leave_one_out",
}
METRICS = {
    "aopc": tuple(
        f"aopc_{name}(ratios=({', '.join(map(str, AOPC_RATIOS))}))" for name in ("comprehensiveness", "sufficiency")
    ),
    "soft": ("soft_comprehensiveness", "soft_sufficiency"),
    "recursive_leave_one_out": ("recursive_erasure(step=0.1)",),
}


class Contestant(Peer):
    def __init__(self) -> None:
        super().__init__()
        self.classifiers: dict[tuple[str, str], Any] = {}

    def prepare(self, work: str, model: str, texts: list[str], setting: str, options: dict[str, Any]) -> Callable:
        classifier = self.classifier(model, setting)
        if work in METRICS:
            explainer = "leave_one_out" if work == "recursive_leave_one_out" else "input_x_gradient"
            attributions = troth.explain(classifier, texts, explainer, units="token")
            return partial(self.measured, classifier, attributions, METRICS[work], work)
        seed = options.pop("seed", 0)
        spec = EXPLAINERS.get(work, work).format(**options)
        return partial(self.explained, classifier, texts, spec, seed)

    def classifier(self, folder: str, setting: str) -> Any:
        if (folder, setting) not in self.classifiers:
            self.load(folder)
            precision = {"precision": "fast"} if setting == "fast" else {}
            prompt, words = prompt_of(folder)
            asked = {"prompt": prompt, "class_words": words} if prompt else {}
            self.classifiers[folder, setting] = troth.load_model(self.model, self.tokenizer, **asked, **precision)
        return self.classifiers[folder, setting]

    def explained(self, classifier: Any, texts: list[str], spec: str, seed: int) -> list[Any]:
        if hasattr(classifier, "_prefixes"):
            classifier._prefixes = type(classifier._prefixes)()  # the prompt is paid for in every turn
        attributions = troth.explain(classifier, texts, spec, units="token", seed=seed, progress=False)
        return [attribution.scores for attribution in attributions]

    def measured(self, classifier: Any, attributions: list[Any], metrics: tuple[str, ...], work: str) -> list[Any]:
        scores = [troth.measure(classifier, attributions, metric, progress=False) for metric in metrics]
        if work == "recursive_leave_one_out":
            return [score.record["p_explained"] for score in scores[0]]
        return [[score.value for score in of_text] for of_text in zip(*scores, strict=True)]
