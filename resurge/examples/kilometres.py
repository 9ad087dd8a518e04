"""Kilometres per ten seconds of each phone: filtered on the phone, summed in Spark, sent back to the phone.

`resurge up` plays it. Move the `.sync(...)` line and the phone ends somewhere else; nothing else changes.
"""

import resurge as rs
from resurge import col

gps = rs.sensor("gps", every="250ms").where(~(col.accuracy > 50))  # a recording may not say how accurate it is
up = gps.sync(batch=20, within="1s")  # the phone ends here
trips = up.key_by("device").tumbling("10s").aggregate(km=rs.path_km("lat", "lon"), points=rs.count())
trips.sync_back("my_trips")
