"""What is the cluster's fault, and not a task's: no executor took it, or the one that ran it was lost.

A task that hangs or kills its worker will do so again, and its range waits for a person. What the cluster did is over
when the cluster is well, so it is tried again without one.
"""

from __future__ import annotations

# As Spark says it, in what a job raises. A worker that an operator killed ("Python worker exited") is none of them.
_SAYINGS = (
    ("ExecutorLostFailure", "an executor was lost"),
    ("Lost executor", "an executor was lost"),
    ("Master removed our application", "the Spark master removed the application"),
    ("All masters are unresponsive", "the Spark master does not answer"),
    ("SparkContext was shut down", "the Spark session was shut down; restart the job if it stays so"),
    ("stopped SparkContext", "the Spark session was shut down; restart the job if it stays so"),
    ("Connection refused", "Spark does not answer; restart the job if it stays so"),
)


class ClusterFault(Exception):
    """The cluster did not run a job, or lost what ran it. Says so in words for people."""


def fault_in(message: str) -> str | None:
    """What the cluster did, by what a job raised; None where it was not the cluster."""
    return next((words for saying, words in _SAYINGS if saying in message), None)
