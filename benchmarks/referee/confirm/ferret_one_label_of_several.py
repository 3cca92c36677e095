"""ferret's SHAP explains a softmax also of a multi-label model: label 1 depends on the weights of label 2."""

import numpy as np
import torch
from _tiny import model, say, tokenizer
from ferret.explainers.shap import SHAPExplainer

scores = []
for factor in (1, 3):
    explained = model(problem_type="multi_label_classification")
    with torch.no_grad():
        explained.classifier.weight[2] *= factor
    scores.append(np.asarray(SHAPExplainer(explained, tokenizer())("good film bad", target=1).scores))
gap = float(np.abs(scores[0] - scores[1]).max())
say(gap > 1e-3, f"a score of label 1 changes by {gap:.4f} when label 2's weights change")
