"""Every reply to a made-up request is one that `/openapi.json` declares. `make fuzz` makes up more of them."""

from pathlib import Path

import pytest

from tests.fuzz.run import fuzz
from tests.fuzz.target import in_process


@pytest.mark.slow
@pytest.mark.timeout(300)
# Hypothesis takes a draw of the server's own threads from `random` for one of its strategies.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
def test_every_reply_to_a_made_up_request_is_a_declared_one(tmp_path: Path) -> None:
    with in_process(tmp_path) as target:
        fuzzed = fuzz(target, cases=1000, seconds=50, seed=1, at_limits=12)

    assert fuzzed.cases > 5 * fuzzed.operations, fuzzed.report()
    assert fuzzed.statuses[500] == 0, fuzzed.report()
    assert not fuzzed.failed, fuzzed.report()
