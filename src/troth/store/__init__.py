"""Results on disk: one run is one folder of cells that several processes may share."""
