"""When the light of this crossing changes, from cameras in cars and what the crossing before expects (MobiStreams,
Figure 3). The letters are the paper's. Each crossing is a region: its sink K feeds S0 of the next one."""

import resurge as rs
import resurge.examples.regions.operators  # registers light_*
from resurge import col

PREVIOUS = {"light": "int64", "seconds": "float64"}

s0 = rs.sensor("previous", every="1s", columns=PREVIOUS).gather("previous", batch=1, within="1s").key_by()
s1 = rs.sensor("pictures", every="1s", columns={"picture": "str"}).gather("pictures", batch=1, within="1s").key_by()
c = s1.apply("light_colour")
a = c.apply("light_shape")
m = a.apply("light_motion")
v = m.apply("light_vote")
g = (
    v.select(colour=col.colour, seconds=-1.0)
    .union(s0.select(colour=col.light, seconds=col.seconds))
    .apply("light_group")
)
p = g.apply("light_predict")
k = p.subscribe("signal")
