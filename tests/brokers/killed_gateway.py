"""A gateway that kills itself with SIGKILL around its n-th commit, as a process:

    python -m tests.brokers.killed_gateway N before|after GATEWAY-OPTIONS

`before`: everything is produced and flushed to the brokers, the commit is not asked for. `after`: Kafka has committed and
no receipt has left.
"""

from __future__ import annotations

import os
import signal
import sys

import confluent_kafka

from cloud_backend.gateway.__main__ import main


def arm(number: int, moment: str) -> None:
    left = number

    class Killed(confluent_kafka.Producer):
        def commit_transaction(self, *arguments: object) -> None:
            nonlocal left
            left -= 1
            if left == 0 and moment == "before":
                self.flush(30)
                os.kill(os.getpid(), signal.SIGKILL)
            super().commit_transaction(*arguments)
            if left <= 0:  # an earlier one may have failed, and was asked for again
                os.kill(os.getpid(), signal.SIGKILL)

    confluent_kafka.Producer = Killed


if __name__ == "__main__":
    arm(int(sys.argv[1]), sys.argv[2])
    raise SystemExit(main(sys.argv[3:]))
