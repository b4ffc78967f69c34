"""Builders of small files."""

import io

from pypdf import PdfReader, PdfWriter


def a_pdf(*pages: str, title: str | None = None) -> bytes:
    """Return a PDF with one page per text; lines end in a line feed, an empty text is an empty page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    inherited = "/MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} {inherited} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, text in enumerate(pages):
        shown = "".join(f"({line}) Tj T* " for line in text.split("\n") if line)
        content = f"BT /F1 12 Tf 14 TL 72 720 Td {shown}ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /Contents {5 + 2 * number} 0 R >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    info = ""
    if title is not None:
        objects.append(f"<< /Title ({title}) >>")
        info = f" /Info {len(objects)} 0 R"
    out, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    out += (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {size} /Root 1 0 R{info} >>\nstartxref\n{len(out)}\n%%EOF\n"
    )
    return out.encode("latin-1")


def locked(pdf: bytes, password: str) -> bytes:
    """Return the PDF, encrypted."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf)))
    writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
