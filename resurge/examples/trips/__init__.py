"""My trips: where one went, how, what it cost the air. `docs/trips.md` says what it shows, `program.py` is it.

fixes, modes, model     what phones infer: which fixes to believe, how one moves
legs, rides             which vehicle a whole ride was in
impact, sites           what the cloud makes of a trip
neighbours              what is said about a place, and from how many people on
operators               all of these as registered operator types
people, archives        recorded and made-up people, zipped or not
outages                 when they lose the network
phone, play, report     the whole product over them, and whether it kept its promises
move_modes, lose_range  what moving a line, and losing a range, costs
summary                 all of that in lines to read
journeys                labelled journeys, made up; tests/ has the training of the model and its scores
"""
