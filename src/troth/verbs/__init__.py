"""What a user does with a model and texts: explain, measure, import scores, fit, extract rationales."""
