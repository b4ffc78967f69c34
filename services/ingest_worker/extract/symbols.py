"""Maps the codes of symbol fonts (Symbol, Wingdings) to characters."""

# Adobe's symbol encoding, as in the font Symbol, from 0x20 and from 0xa1; a space where no character matches.
_LOW = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_ αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_HIGH = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…  ↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨   ∑"
_SHOWN = {0x20 + at: sign for at, sign in enumerate(_LOW)} | {0xA1 + at: sign for at, sign in enumerate(_HIGH)}
_BOXES = {0x6F: "☐", 0x71: "☐", 0x72: "☐", 0xA3: "☐", 0xA8: "☐", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑", 0xFB: "✗", 0x78: "☒"}
# What Office writes for :) and -->, and bullets
_BOXES |= dict(zip(b"\x4a\x4b\x4c\xdf\xe0\xe1\xe2\xe8\xa7\x6c\x6e\x75\x76\xd8", "☺😐☹←→↑↓➔▪●■◆❖➢", strict=True))
_FONTS = {"symbol": _SHOWN, "wingdings": _BOXES, "wingdings 2": dict(zip(b"OPQRST\xa3", "✗✓☒☑☒☒☐", strict=True))}


def shown(code: int, font: str) -> str:
    """Return the character that a font shows for a code, or '' if none matches."""
    return _FONTS.get(font.strip().casefold(), {}).get(code & 0xFF, "").strip()


def in_font(text: str, font: str) -> str:
    """Return the text as a font shows it; what matches no character stays, unless it is a code of such fonts only."""
    if font.strip().casefold() not in _FONTS:
        return text
    signs = ((sign, shown(ord(sign), font) if ord(sign) < 0x100 or ord(sign) >> 8 == 0xF0 else "") for sign in text)
    return "".join(known or ("" if ord(sign) >> 8 == 0xF0 else sign) for sign, known in signs)
