"""A Gradio page that explains a text with two methods, each with its proof.

python examples/gradio_app.py [MODEL]
"""

import sys

import gradio

import troth
from troth.report.explanation import sections

model = troth.load_model(sys.argv[1] if len(sys.argv) > 1 else "embedded")


def explain(text: str) -> str:
    found = [troth.explain(model, text, method)[0] for method in ("leave_one_out", "integrated_gradients")]
    return "".join(sections([troth.prove(model, found)]))


app = gradio.Interface(
    explain, gradio.Textbox("A slow start, but what a wonderful ending."), gradio.HTML(), title="troth"
)

if __name__ == "__main__":
    app.launch()
