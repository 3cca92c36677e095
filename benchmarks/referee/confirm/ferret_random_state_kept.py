"""ferret's SHAP seeds NumPy's global random generator, so everything that is drawn afterwards is the same in each run."""

import numpy as np
from _tiny import model, say, tokenizer
from ferret.explainers.shap import SHAPExplainer

explained, own, drawn = model(), tokenizer(), []
for seed in (1, 2):
    np.random.seed(seed)
    SHAPExplainer(explained, own)("not very good film", target=1)
    drawn.append(float(np.random.random()))
say(drawn[0] == drawn[1], f"after seeds 1 and 2, the next random number is {drawn[0]:.4f} and {drawn[1]:.4f}")
