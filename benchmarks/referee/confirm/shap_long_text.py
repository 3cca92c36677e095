"""Of a text longer than the pipeline reads, SHAP scores every token and gives no warning."""

import warnings

import shap
from _tiny import model, say, tokenizer
from transformers import pipeline

own = tokenizer()
reader = pipeline("text-classification", model=model(), tokenizer=own, top_k=None, device="cpu", truncation=True)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    values = shap.Explainer(reader, silent=True)(["film " * 28]).values
said = any("trunc" in str(warning.message).lower() for warning in warned)
say(
    values.shape[1] > own.model_max_length and not said, f"{values.shape[1]} scores, {own.model_max_length} tokens read"
)
