"""Queries over a bounding volume hierarchy."""
