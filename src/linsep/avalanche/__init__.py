"""For users of Avalanche: BFP as a plug-in, and benchmarks as scenarios. Needs avalanche-lib.

Knows Avalanche's strategies and streams. The rest of linsep knows nothing of this package.
"""

from ..optional import needed

needed("avalanche", "linsep.avalanche")

from .plugin import BFPPlugin as BFPPlugin  # noqa: E402
from .streams import from_benchmark as from_benchmark  # noqa: E402

__all__ = ["BFPPlugin", "from_benchmark"]
