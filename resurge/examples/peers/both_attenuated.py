"""The mean comes back to both sensors, whose readings become smaller while it is too high (SP4)."""

from resurge.examples.peers.averages import answers_to, attenuated, average, feedback, readings_of

answers = feedback("answers")
mean = average(attenuated(readings_of("test_a"), answers), attenuated(readings_of("test_b"), answers))
answers_to(mean).feed(answers)
mean.subscribe("mean")
