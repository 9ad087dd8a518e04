"""Heart beats found on the phone, their rate by the minute from Spark, back on the phone.

The chain of the ECOC paper's first experiment: sensor, filter, QRS detector. `docs/heart.md` shows how to play it.
"""

import resurge as rs
import resurge.examples.ecg.operators  # registers ecg_band and qrs
from resurge import col

ecg = rs.sensor("ecg", every="2778us", columns={"mv": "float64"})  # 360 Hz
beats = ecg.apply("ecg_band", rate=360.0).apply("qrs", rate=360.0)
# The phone ends here: 360 samples a second have become one or two rows.
up = beats.sync("beats", batch=60, within="30s", contract=rs.lossless())
rate = up.where(col.bpm > 0).key_by("device").tumbling("1m")
rate.aggregate(bpm=rs.median("bpm"), slowest=rs.min("bpm"), fastest=rs.max("bpm"), beats=rs.count()).sync_back(
    "heart_rate"
)
