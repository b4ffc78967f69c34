"""No made-up request ends in a 500. `make fuzz` makes up more of them."""

from pathlib import Path

import pytest

from tests.fuzz.run import fuzz
from tests.servers.cache import CI_ONLY


@pytest.mark.slow
@CI_ONLY
@pytest.mark.timeout(300)
def test_no_made_up_request_ends_in_a_server_error(tmp_path: Path) -> None:
    fuzzed = fuzz(tmp_path, examples=4, seconds=120, seed=1, phases="fuzzing")

    assert fuzzed.generated >= 34, fuzzed.report[-3000:]
    assert fuzzed.passed == fuzzed.generated, fuzzed.report[-6000:]
