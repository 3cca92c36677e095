"""ferret's SHAP returns more scores than tokens for a text that is longer than the model reads, without a warning."""

from _tiny import model, say, tokenizer
from ferret.explainers.shap import SHAPExplainer

found = SHAPExplainer(model(), tokenizer())("film " * 28, target=1)
say(len(found.tokens) != len(found.scores), f"{len(found.tokens)} tokens and {len(found.scores)} scores")
