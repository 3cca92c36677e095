"""Stored results as tables, curves and self-contained HTML; reads results only from the store."""
