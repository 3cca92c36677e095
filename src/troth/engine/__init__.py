"""What does the model say if only this much of the input is kept? Asked here, many examples per batch."""
