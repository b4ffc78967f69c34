import pytest

from shared.answers.extractive import Extractive
from shared.answers.model_pool import ChatModel, ChatModels, Server, UnknownModel
from shared.answers.ollama import OllamaAnswers
from shared.model_server.ollama import OllamaAddress


def a_model(name: str, server: Server = "ollama", *, stands_in: bool = True) -> ChatModel:
    answers = Extractive() if server == "extractive" else OllamaAnswers(OllamaAddress("http://127.0.0.1:1", name))
    return ChatModel(name=name, server=server, answers=answers, stands_in=stands_in)


MODELS = ChatModels(
    [
        a_model("llama3.2"),
        ChatModel(name="fast", server="openai", answers=a_model("gpt-4o-mini").answers),
        a_model("extractive", "extractive", stands_in=False),
    ]
)


def names(models: tuple[ChatModel, ...]) -> list[str]:
    return [model.name for model in models]


def test_without_a_wish_the_default_answers_and_the_others_stand_in() -> None:
    assert names(MODELS.chosen()) == names(MODELS.chosen("", "")) == ["llama3.2", "fast"]


@pytest.mark.parametrize("wish", ["llama3.2", "LLAMA3.2:latest", "fast", "gpt-4o-mini", "extractive"])
def test_a_model_is_chosen_by_alias_or_its_own_name_and_nothing_stands_in(wish: str) -> None:
    assert len(MODELS.chosen(wish)) == 1


@pytest.mark.parametrize(("target", "first"), [("ollama", "llama3.2"), ("openai", "fast"), ("fast", "fast")])
def test_a_target_is_a_kind_of_server_or_a_name(target: str, first: str) -> None:
    assert MODELS.chosen(target=target)[0].name == first


def test_ollama_means_the_default_where_there_is_no_ollama() -> None:
    assert names(ChatModels([a_model("extractive", "extractive")]).chosen(target="ollama")) == ["extractive"]


@pytest.mark.parametrize(
    ("model", "target", "field", "listed"),
    [
        ("gpt-5", None, "model", "llama3.2, fast, extractive"),
        ("fast", "ollama", "model", "llama3.2"),
        (None, "http://169.254.169.254", "target", "ollama, openai, extractive, llama3.2, fast"),
    ],
)
def test_an_unknown_name_is_refused_and_the_known_are_listed(
    model: str | None, target: str | None, field: str, listed: str
) -> None:
    with pytest.raises(UnknownModel) as caught:
        MODELS.chosen(model, target)

    assert caught.value.field == field
    assert str(caught.value).endswith(f"allowed are: {listed}")
