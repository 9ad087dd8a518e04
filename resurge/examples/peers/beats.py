"""Heart beats found on nodes near the person: sensor, filter, QRS detector, each vertex on a node of its own (SP1).

`resurge/examples/ecg/heart.py` is the same chain on the phone alone.
"""

import resurge as rs
import resurge.examples.ecg.operators  # registers ecg_band and qrs

ecg = rs.sensor("ecg", every="2778us", columns={"mv": "float64"})  # 360 Hz
near = ecg.gather("ecg", batch=90, within="250ms")
beats = near.apply("ecg_band", rate=360.0).apply("qrs", rate=360.0)
beats.subscribe("beats")
