"""Meaning and agreement: what a stream program means, and how two machines keep an edge in step.

Standard library and numpy only, Python 3.11 to 3.14. Clocks, randomness, disks, ciphers and keys are handed in.
"""

RESURGE = True  # resurge/__init__ checks this: it tells our `shared` from somebody else's on the path
