"""Is an erased input still one the model knows?"""
