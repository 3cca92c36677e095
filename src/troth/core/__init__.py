"""The words everything speaks: examples, units, errors, catalogs and random draws."""
