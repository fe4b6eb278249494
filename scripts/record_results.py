"""Write tests/record/results.json: what tiny runs of every method give, down to the last bit.

    python scripts/record_results.py

Run it only when numbers are meant to change, and say why in the commit and in CHANGELOG.md.
tests/test_record.py compares every other change with the record.
"""

import json
import os
import sys
from pathlib import Path

os.environ["ATEN_CPU_CAPABILITY"] = "avx2"  # as tests/conftest.py does
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.helpers.recorded import CASES, calibration, observed  # noqa: E402

if __name__ == "__main__":
    runs = {}
    for name in CASES:
        runs[name] = observed(name)
        print(name, runs[name]["weights"])
    content = {"calibration": calibration(), "runs": runs}
    path = ROOT / "tests" / "record" / "results.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
