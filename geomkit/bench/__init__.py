"""geomkit beside its peers: `python -m geomkit.bench`."""
