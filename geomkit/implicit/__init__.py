"""Signed distance and grids."""
