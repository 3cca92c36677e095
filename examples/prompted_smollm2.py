"""Explain why a small language model calls a review positive, in the terminal and in HTML, with the prompt in gray.

python examples/prompted_smollm2.py MODEL [PAGE]

MODEL is SmolLM2-135M-Instruct: a folder, a hub name or a GGUF file (which needs the gguf package); PAGE the HTML file.
"""

import sys
from pathlib import Path

from rich.console import Console

import troth
from troth.report import explanation as display
from troth.report import export

PROMPT = "Is this film review Positive or Negative? Answer with one word.\nReview: {text}"
REVIEWS = [
    "The plot is thin, but the cast is wonderful and I laughed all evening.",
    "Two hours of my life wasted on a dull, lazy and awful film.",
]
METHODS = ["leave_one_out", "integrated_gradients(steps=10, baseline=mask)"]

if len(sys.argv) < 2:
    sys.exit(__doc__)
model = troth.load_model(sys.argv[1], prompt=PROMPT, class_words=["Positive", "Negative"])
out = Path(sys.argv[2] if len(sys.argv) > 2 else "prompted.html")

console, shown = Console(highlight=False), []
for method in METHODS:
    for attribution in troth.explain(model, REVIEWS, method):
        console.print(f"\n{attribution.explainer.split('(')[0]} → {display.heading(attribution)}", style="bold")
        console.print(display.text(attribution))
        shown.append(display.html(attribution))
export.write_page(out, "A prompted language model", shown)
console.print(f"\nwritten to {out}", style="dim", soft_wrap=True)
