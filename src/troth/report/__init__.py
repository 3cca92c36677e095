"""Stored results as tables, curves and self-contained HTML; reads only the store."""
