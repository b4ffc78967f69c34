import pytest

from services.ingest_worker.extract.equations import equation
from services.ingest_worker.extract.safe_xml import parsed


def _of(name: str, text: str) -> str:
    return f"<m:{name}><m:r><m:t>{text}</m:t></m:r></m:{name}>"


def _equation(part: str) -> str:
    root = parsed(f'<m:oMath xmlns:m="urn:m">{part}</m:oMath>'.encode())
    assert root is not None
    return equation(root)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (f"<m:f>{_of('num', 'a+b')}{_of('den', 'c')}</m:f>", "(a+b)/c"),
        (f"<m:sSup>{_of('e', '10')}{_of('sup', '5')}</m:sSup>", "10^5"),
        (f"<m:sSubSup>{_of('e', 'a+b')}{_of('sub', 'i')}{_of('sup', '12')}</m:sSubSup>", "(a+b)_i^{12}"),
        (f"<m:rad>{_of('deg', '3')}{_of('e', 'x+1')}</m:rad>", r"\sqrt[3]{x+1}"),
        (f"<m:rad><m:deg/>{_of('e', 'x')}</m:rad>", r"\sqrt{x}"),
        (f"<m:d>{_of('e', 'x')}</m:d>", "(x)"),
        (f'<m:d><m:dPr><m:begChr m:val="["/><m:endChr m:val=""/></m:dPr>{_of("e", "x")}{_of("e", "y")}</m:d>', "[x|y"),
        (
            (
                f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr>{_of("sub", "i=1")}'
                f"{_of('sup', 'n')}{_of('e', 'i')}</m:nary>"
            ),
            r"\sum_{i=1}^n i",
        ),
        (
            f"<m:m><m:mr>{_of('e', '1')}{_of('e', '2')}</m:mr><m:mr>{_of('e', '3')}{_of('e', '4')}</m:mr></m:m>",
            r"\begin{matrix} 1 & 2 \\ 3 & 4 \end{matrix}",
        ),
        (f"<m:func>{_of('fName', 'sin')}{_of('e', 'x+y')}</m:func>", "sin (x+y)"),
        (f"<m:box>{_of('e', 'x')}</m:box>", "x"),
        (f"<m:limLow>{_of('e', 'lim')}{_of('lim', 'n→∞')}</m:limLow>", "lim_{n→∞}"),
        (f"<m:limUpp>{_of('e', 'x')}{_of('lim', '!')}</m:limUpp>", "x^!"),
    ],
)
def test_an_equation_keeps_its_meaning(part: str, text: str) -> None:
    assert _equation(part) == text


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("<mrow>", "</mrow>"),
        ("<msup>", "<mn>2</mn></msup>"),
        ("<mfrac>", "<mn>2</mn></mfrac>"),
        ("<mfenced>", "</mfenced>"),
        ("<mtable><mtr><mtd>", "</mtd></mtr></mtable>"),
        ("<msqrt>", "</msqrt>"),
        ("<m:d><m:e>", "</m:e></m:d>"),
        ("<m:sSup><m:e>", "</m:e></m:sSup>"),
        ("<m:eqArr>", "</m:eqArr>"),
    ],
)
@pytest.mark.parametrize("leaf", ["<mi> x </mi>", "<m:r><m:t>x</m:t></m:r>"])
def test_one_of_any_kind_that_is_nested_too_deeply_keeps_its_characters(begin: str, end: str, leaf: str) -> None:
    deep = 200 // begin.count("<")  # lxml refuses 256

    text = _equation(begin * deep + leaf + end * deep)

    assert "x" in text
    assert max(map(text.count, "^/(")) < 50


def test_one_that_is_nested_too_deeply_is_its_characters() -> None:
    assert _equation("<m:e>" * 60 + "<m:r><m:t>x</m:t></m:r>" + "</m:e>" * 60) == "x"
