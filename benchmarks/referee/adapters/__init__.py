"""A file per library: `METHODS`, attribution functions by name, each with what the method claims."""
