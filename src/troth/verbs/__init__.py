"""What a user does with a model and texts: explain, measure, bring in scores, fit, extract rationales."""
