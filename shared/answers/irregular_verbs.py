"""Forms of English verbs that no ending makes, as `words` compares them."""

from collections.abc import Mapping
from typing import Final

from shared.answers.sentences import words

# Forms that are also words of their own (left, found, saw, rose) are not here.
_FORMS: Final = """
begin began begun; break broke broken; bring brought; build built; buy bought; catch caught; choose chose chosen;
draw drew drawn; drive drove driven; eat ate eaten; fall fell fallen; fly flew flown; forget forgot forgotten;
give gave given; grow grew grown; hide hid hidden; hold held; keep kept; know knew known; lend lent; lose lost;
make made; meet met; pay paid; run ran; say said; seek sought; sell sold; send sent; sing sang sung; sink sank sunk;
speak spoke spoken; spend spent; stand stood; steal stole stolen; strike struck; swim swam swum; take took taken;
teach taught; tell told; think thought; throw threw thrown; understand understood; wear wore worn; win won;
write wrote written
"""

OTHER_FORMS: Final[Mapping[str, frozenset[str]]] = {
    form: group - {form} for group in (frozenset(words(forms)) for forms in _FORMS.split(";")) for form in group
}
