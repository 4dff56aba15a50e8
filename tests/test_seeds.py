"""One seed makes the same generators for ever: every bit of every run follows from them."""

from hashlib import sha256

import pytest

from bntricks.seeds import Generators, derived_seed


@pytest.mark.parametrize(
    ("parts", "text"), [(("order", 0), "order:0"), ((7, "a", (1, 2)), "7:a:(1, 2)")]
)
def test_a_seed_is_the_first_63_bits_of_a_hash_of_its_parts(parts, text):
    assert derived_seed(*parts) == int(sha256(text.encode()).hexdigest()[:16], 16) // 2


def test_every_kind_of_choice_has_a_generator_of_its_own():
    states = Generators.of(3).state_dict()
    assert len(states) == 7
    assert len({state.numpy().tobytes() for state in states.values()}) == 7
