"""The files that can be read, for the API's own description; docs/formats.md says how."""

READABLE = """Add files: multipart under any field name, or one raw body with its content type and X-Filename.

The content decides what a file is, then its media type, then its name. Read are text and source code (.txt .text .log
.rst .adoc .asciidoc .org .tex .py and the like), Markdown (.md .markdown .mdown .mkd .mdx), HTML (.html .htm .xhtml),
XML (.xml .nxml .jats .rss .atom .svg .dita .tei), JSON (.json .jsonl .ndjson .geojson .jsonld), notebooks (.ipynb),
tables (.csv .tsv .tab .xlsx .xlsm .xltx .xlsb .xls .xlt .ods .ots), PDF (.pdf), presentations (.pptx .pptm .ppsx .potx
.odp .otp), texts (.docx .docm .dotx .dotm .odt .ott .rtf), books (.epub), mail (.eml .mht .mhtml .p7s), archives of any
of these (.zip); with the extra `office` old Word (.doc .dot), old PowerPoint (.ppt .pps) and Outlook (.msg); with the
extra `ocr` images (.png .jpg .jpeg .gif .tif .tiff .bmp .webp) and scanned PDFs."""
