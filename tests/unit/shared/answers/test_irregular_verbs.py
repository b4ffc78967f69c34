from shared.answers.irregular_verbs import OTHER_FORMS
from shared.answers.sentences import words


def test_every_form_of_a_verb_names_the_others_and_not_itself() -> None:
    assert OTHER_FORMS["flown"] == {"fly", "flew"}
    assert all(form in OTHER_FORMS[other] for form, others in OTHER_FORMS.items() for other in others)
    assert all(form not in others for form, others in OTHER_FORMS.items())


def test_forms_are_compared_as_the_words_of_a_text_are() -> None:
    (written,) = words("written")

    assert written in OTHER_FORMS[words("write")[0]]
