"""Where examples come from: files, folders, ERASER, the hub."""
