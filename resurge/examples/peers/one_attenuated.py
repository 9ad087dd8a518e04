"""The mean comes back to the first sensor, whose readings become smaller while it is too high (SP3)."""

from resurge.examples.peers.averages import answers_to, attenuated, average, feedback, readings_of

answers = feedback("answers")
mean = average(attenuated(readings_of("test_a"), answers), readings_of("test_b"))
answers_to(mean).feed(answers)
mean.subscribe("mean")
