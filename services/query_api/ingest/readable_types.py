"""The supported file types, as the OpenAPI description of uploads. See docs/formats.md."""

READABLE = """Add files: multipart under any field name, or one raw body with its content type and X-Filename.

The content decides the type of a file, then its media type, then its name. Supported: text and source code (.txt
.text .log .tex .py, others), markup (.md .markdown .mdown .mkd .mdx .rst .adoc .asciidoc .org .wiki .mediawiki),
subtitles (.srt .vtt .sbv .ass .ssa), HTML (.html .htm .xhtml), XML (.xml .nxml .jats .rss .atom .svg .dita .tei),
JSON (.json .jsonl .ndjson .geojson .jsonld), notebooks (.ipynb), tables (.csv .tsv .tab .xlsx .xlsm .xltx .xlsb .xls
.xlt .ods .ots .fods), PDF (.pdf), presentations (.pptx .pptm .ppsx .potx .odp .otp .fodp), texts (.docx .docm .dotx
.dotm .odt .ott .fodt .rtf), books (.epub), mail (.eml .mht .mhtml .p7s .mbox), calendars and contacts
(.ics .ical .vcs .vcf .vcard), archives of any of these (.zip); with the extra `office` legacy Word (.doc .dot),
PowerPoint (.ppt .pps) and Outlook (.msg); with the extra `ocr` images (.png .jpg .jpeg .gif .tif .tiff .bmp .webp)
and scanned PDFs."""
