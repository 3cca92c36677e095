"""The properties of an attribution function: one function per property, grouped into files."""
