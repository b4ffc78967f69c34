"""Writes deploy/samples/harbour-notice.pdf, byte for byte the same each time.

Run: python deploy/build_sample_pdf.py
"""  # noqa: INP001 - a script beside the files it makes, not a package

from pathlib import Path

TARGET = Path(__file__).parent / "samples" / "harbour-notice.pdf"

PAGES = (
    """\
NOTICE TO VISITORS AND MARINERS
Harbour Office, Ardlinn - notice 4 of this year

Repair of the causeway

From 7 to 25 September the causeway to Skerrow Light is closed to
walkers. Forty-six slabs between the second and the third bend are
lifted and laid again on a bed of lime mortar. The refuge hut stays
open throughout.

During these weeks the Petrel sails every hour from 9:30 to 15:30,
and a return costs 6 pounds instead of 12. The last boat back
leaves the rock at 16:45 and does not wait.

Divers may be at work near the north landing on weekdays. A blue
and white flag is shown while they are down; keep 100 metres off.
""",
    """\
Tide gauge and anchorage

The tide gauge on the old pier has been reading 12 centimetres too
high since 3 July. Take this off until the notice is withdrawn.

Yachts may anchor in the Pool, south-east of the rock, in five
metres over sand. There is room for four. Holding is good in winds
from west to north; leave when the wind goes into the south.

Buoy number 2, Cat's Teeth, has been moved 80 metres to the
north-west and now carries a green light, one flash every five
seconds.

Signed: J. Oduya, harbour master. Questions: VHF channel 12, from
an hour before until an hour after high water.
""",
)


def pdf(pages: tuple[str, ...]) -> bytes:
    """Return a PDF 1.4 file of plain A4 pages in Helvetica; the text must be ASCII."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, page in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {5 + 2 * number} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        lines = "".join(f"({_escaped(line)}) '\n" for line in page.splitlines())
        stream = f"BT\n/F1 12 Tf\n17 TL\n72 770 Td\n{lines}ET\n"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}endstream")

    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode("ascii")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return body + f"{trailer}startxref\n{len(body)}\n%%EOF\n".encode("ascii")


def _escaped(line: str) -> str:
    return line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


if __name__ == "__main__":
    TARGET.write_bytes(pdf(PAGES))
