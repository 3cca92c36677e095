"""What does the model predict if only a part of each input is kept? The engine asks this in large batches."""
