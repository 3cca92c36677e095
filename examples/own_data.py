"""Load your own texts from a csv or from memory; labels are matched with the model's classes by name.

python examples/own_data.py
"""

import csv
import tempfile
from pathlib import Path

import troth

path = Path(tempfile.mkdtemp()) / "reviews.csv"
with path.open("w", newline="") as file:
    csv.writer(file).writerows(
        [("review", "stars"), ("Best soup in town.", "positive"), ("Cold and slow.", "negative")]
    )

data = troth.load_data(str(path), text="review", label="stars")
data = [*data, troth.Example(id="mine", text="I would come again.", label="positive")]
model = troth.load_model("embedded")
for found in troth.explain(model, data, "leave_one_out", target="gold"):
    scores = {unit: round(float(score), 2) for unit, score in zip(found.units, found.scores, strict=True)}
    print(model.labels[found.target], scores)
