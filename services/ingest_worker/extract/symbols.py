"""Maps the codes of symbol fonts (Symbol, Wingdings) to characters."""

# Adobe's symbol encoding, as in the font Symbol, from 0x20 and from 0xa1; a space where no character matches.
_LOW = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_ αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_HIGH = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…  ↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨   ∑"
_SHOWN = {0x20 + at: sign for at, sign in enumerate(_LOW)} | {0xA1 + at: sign for at, sign in enumerate(_HIGH)}
_BOXES = {0x6F: "☐", 0x71: "☐", 0x72: "☐", 0xA3: "☐", 0xA8: "☐", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑", 0xFB: "✗", 0x78: "☒"}


def shown(code: int, font: str) -> str:
    """Return the character that a font shows for a code, or '' if none matches."""
    code &= 0xFF
    name = font.strip().casefold()
    if name == "symbol":
        return _SHOWN.get(code, "").strip()
    if name == "wingdings":
        return _BOXES.get(code, "")
    return ""
