"""transformers-interpret#107: do a label's scores depend on the weights of the other labels?"""

import numpy as np
import torch
from _tiny import model, say, tokenizer
from transformers_interpret import MultiLabelClassificationExplainer

scores = []
for factor in (1, 3):
    explained = model(problem_type="multi_label_classification")
    with torch.no_grad():
        explained.classifier.weight[2] *= factor
    found = MultiLabelClassificationExplainer(explained, tokenizer())("good film bad")
    scores.append([score for _, score in found[explained.config.id2label[1]]])
gap = float(np.abs(np.subtract(*scores)).max())
say(gap > 1e-3, f"the largest change of a score of label 1 is {gap:.4f} when label 2's weights change")
