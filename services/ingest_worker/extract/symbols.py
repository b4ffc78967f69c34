"""What fonts of signs show in place of letters."""

# Adobe's symbol encoding, as the font Symbol has it, from 0x20 and from 0xa1; a space where nothing says what it shows.
_LOW = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_ αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_HIGH = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…  ↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨   ∑"
_SHOWN = {0x20 + at: sign for at, sign in enumerate(_LOW)} | {0xA1 + at: sign for at, sign in enumerate(_HIGH)}
_BULLET = 0xB7  # and in every other font of signs, for lists
_BOXES = {0x6F: "☐", 0x71: "☐", 0x72: "☐", 0xA3: "☐", 0xA8: "☐", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑", 0xFB: "✗", 0x78: "☒"}


def shown(code: int, font: str) -> str:
    """Return the sign that a font shows for a code, '' where no character says what it is."""
    code &= 0xFF
    name = font.strip().casefold()
    if name == "symbol":
        return _SHOWN.get(code, "").strip()
    if name == "wingdings":
        return _BOXES.get(code, "")
    return ""
