"""How full a bus will be when it leaves this stop, from a camera here and what the stop before expects (MobiStreams,
Figure 2). The letters are the paper's. Each stop is a region: its sink K feeds S0 of the next one."""

import resurge as rs
import resurge.examples.regions.operators  # registers bus_*
from resurge import col

PREVIOUS = {"bus": "int64", "passengers": "float64"}

s0 = rs.sensor("previous", every="1s", columns=PREVIOUS).gather("previous", batch=1, within="1s").key_by()
n = s0.apply("bus_noise")
a = n.apply("bus_arrival")
l = n.apply("bus_alighting")  # noqa: E741

s1 = rs.sensor("pictures", every="1s", columns={"picture": "str"}).gather("pictures", batch=1, within="1s").key_by()
d = s1.apply("bus_dispatch", ways=2)
h = [d.where(col.way == way).select("picture").apply("bus_passers_by") for way in range(2)]
c = [each.apply("bus_count") for each in h]
b = c[0].union(c[1]).apply("bus_boarding")

j = a.union(l, b)
p = j.apply("bus_capacity")
k = p.subscribe("capacity")
