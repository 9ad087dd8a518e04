"""A Python function that Java can call."""

from __future__ import annotations

from collections.abc import Callable

from jnius import PythonJavaClass, java_method


class Act(PythonJavaClass):
    """A java.lang.Runnable. Whoever hands it to Java keeps it: Java's reference is not one that Python counts."""

    __javainterfaces__ = ["java/lang/Runnable"]  # noqa: RUF012 - pyjnius reads it so
    __javacontext__ = "app"

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self._act = act

    @java_method("()V")
    def run(self) -> None:
        self._act()
