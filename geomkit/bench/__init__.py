"""geomkit beside its peers."""
