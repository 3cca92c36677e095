"""Are erased inputs still in distribution for the model?"""
