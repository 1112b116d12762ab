"""The interfaces of other packages, answered by geomkit."""

from geomkit.compat.ray import RayMeshIntersector as RayMeshIntersector
