"""What is said where bad input is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from features.errors import InputError


def refusal(call: Callable[..., object], *arguments: object, **options: object) -> str:
    """Return the one line of the InputError that a call raises."""
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)
