import pytest

from judges.engines.token_texts import added_texts
from tests.vocabularies import tokenizer_of

TEXT = '{"reasons": "Ça va, 我很好 שלום 😀 𓀀", "score": 5}'


@pytest.mark.parametrize("name", ["llama2", "smollm2"])
def test_the_texts_of_tokens_joined_are_the_answer(name: str) -> None:
    tokenizer = tokenizer_of(name)
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    texts = list(added_texts(tokenizer, ids))
    assert "".join(texts) == tokenizer.decode(ids)
    assert "" in texts, "a character of several tokens is the last one's"
    assert texts[-2:] in (["5", "}"], ["5", '"}'])
