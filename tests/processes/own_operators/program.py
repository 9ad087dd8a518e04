"""The example's kilometres, with functions of its own on both sides."""

import resurge as rs
from resurge import col

gps = rs.sensor("gps", every="250ms").where(~(col.accuracy > 50)).map("own_kmh", keep=True)
up = gps.sync(batch=20, within="1s")
trips = up.tumbling("10s").aggregate(km=rs.path_km("lat", "lon"), points=rs.count(), kmh=rs.max("own_kmh"))
trips.map("own_pace").sync_back("my_trips")
