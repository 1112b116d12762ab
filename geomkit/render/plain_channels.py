"""Channels of what rays hit that no light changes: without surfaces, materials and steps of light."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geomkit.render.first_hits import FirstHits
from geomkit.render.rendering import CHANNELS
from geomkit.render.surface import plain_hits_adj
from geomkit.render.tables import SceneTables
from geomkit.runtime.device import zeros
from geomkit.spatial.interpolate_attribute import interpolated
from geomkit.spatial.scatter import FaceSums

__all__ = ["is_plain", "plain_adjoint", "plain_channels"]


def plain_channels(tables: SceneTables, channels: Sequence[str], first: FirstHits) -> Any:
    """(N, C), the channels one after the other, "color" not among them; 0 where nothing is hit."""
    xp, hits = tables.xp, first.hits
    hit = (hits.face >= 0)[:, None]
    parts = []
    for name in channels:
        if name == "mask":
            parts.append(hit.astype(tables.dtype))
        elif name == "depth":
            parts.append(xp.where(hit, hits.t[:, None], 0))
        elif name == "position":
            parts.append(xp.where(hit, hits.position, 0))
        elif name == "normal":
            parts.append(hits.normal)
        else:
            parts.append(_albedo(tables, first))
    return xp.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


def _albedo(tables: SceneTables, first: FirstHits) -> Any:
    hits, at, own = first.hits, first.at, [attributes["albedo"] for attributes in tables.attributes]
    if len(own) == 1 and own[0].vertex is not None:
        return interpolated(tables.mesh, own[0].vertex, hits.face, hits.barycentric)
    face = hits.face[at]
    rows = tables.material[tables.object_of_face[face]]
    if tables.varying:
        width = tables.widths(hits.t[at], hits.normal[at], first.directions[at]) if tables.filtered else None
        tables.vary(rows, face, hits.barycentric[at], width)
    out = tables.xp.zeros((len(hits.face), 3), tables.dtype)
    out[at] = rows[:, :3]
    return out


def is_plain(tables: SceneTables, channels: Sequence[str]) -> bool:
    """Whether `plain_adjoint` gives all gradients that are wanted: no camera's, of materials colours at vertices."""
    if "color" in channels or tables.wanted is None or any(path.startswith("camera.") for path in tables.wanted):
        return False
    return "albedo" not in channels or (len(tables.objects) == 1 and tables.attributes[0]["albedo"].vertex is not None)


def plain_adjoint(
    tables: SceneTables, channels: Sequence[str], first: FirstHits, adj: Any, faces: dict[str, FaceSums]
) -> dict[str, Any]:
    """Gradients by path for the cotangent (N, C) of `plain_channels`; those of faces add up under "vertices"."""
    hits, start = first.hits, 0
    out: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for name in channels:
        own = adj[:, start : start + CHANNELS[name]]
        start += CHANNELS[name]
        if name == "albedo":
            attribute = tables.attributes[0]["albedo"]
            given["adj_barycentric"] = zeros(tables.device, hits.barycentric.shape, tables.dtype)
            rows = hits.face, hits.barycentric, None, tables.xp.ascontiguousarray(own), given["adj_barycentric"]
            out |= dict(attribute.adjoint(*rows, tables.wanted))
        elif name != "mask":
            given[{"depth": "adj_t", "position": "adj_place", "normal": "adj_flat"}[name]] = own
    plain_hits_adj(tables.mesh, hits, first.directions, faces, **given)
    return out
