"""The options of what `zketcd top` shows."""

from dataclasses import dataclass

from proxy.options import values
from proxy.options.table import option


@dataclass(frozen=True, slots=True)
class TopOptions:
    """How requests are sampled, to learn which paths and clients are busiest."""

    sample: int = option(  # 0 for none
        "one request in so many is looked at for `zketcd top`; 0: none is (pathStats.sampleRate)",
        name="--top-sample",
        type=values.not_negative,
        default=1000,
        metavar="N",
    )
    depth: int = option(
        "names of a path that are counted together (pathStats.maxDepth)",
        name="--top-depth",
        type=values.positive,
        default=3,
        metavar="N",
    )
    window: int = option(  # seconds
        "time over which rates are averaged (pathStats.slotDuration and slotCapacity)",
        name="--top-window",
        type=values.positive,
        default=60,
        metavar="SECONDS",
    )
    log: int = option(  # seconds; 0 for none
        "the busiest paths are logged this often; 0 for never (pathStats.delay)",
        name="--top-log",
        type=values.not_negative,
        default=0,
        metavar="SECONDS",
    )
    rows: int = option(
        "how many paths are logged (pathStats.topPathMax)",
        name="--top-rows",
        type=values.positive,
        default=20,
        metavar="N",
    )
