"""Who takes part: one file per library. Each has a class `Contestant` with a method per work."""
