"""What an operator puts out, given what it takes in.

Called for every verb as it is written, so that an error names the user's line, and again for every node of a plan that
arrives as JSON. The rules are the operators' own; an output port alone asks the operator it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable

from shared.plan.operators import Apply, Operator, Port
from shared.plan.stream_type import StreamType

Types = tuple[StreamType, ...]


def output_type(operator: Operator, inputs: Types, above: Callable[[], tuple[Operator, Types]]) -> StreamType:
    """The type of an operator's output; UsageError where something does not fit. `above()` gives the operator of its
    first input, and that one's inputs."""
    if isinstance(operator, Port):
        source, sources = above()
        if isinstance(source, Apply):
            return source.port_type(operator.name, sources)
    return operator.output_type(inputs)
