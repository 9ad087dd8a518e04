"""Two sensors, their sum over 100 rows, its mean over 100 rows (SP2)."""

from resurge.examples.peers.averages import average, readings_of

mean = average(readings_of("test_a"), readings_of("test_b"))
mean.subscribe("mean")
