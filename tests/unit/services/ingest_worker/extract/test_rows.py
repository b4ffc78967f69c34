from services.ingest_worker.extract.rows import named_rows
from services.ingest_worker.extract.table_header import Covered


def test_a_long_row_of_one_merged_cell_is_kept() -> None:
    names = ["Station", *[f"Month {at} of the year {'as it was counted at the quay ' * 2}" for at in range(12)]]
    row = ["", "Not surveyed in 2020", *[Covered("Not surveyed in 2020")] * 11]

    assert list(named_rows([row], names)) == [f"{names[1]}: Not surveyed in 2020"]
