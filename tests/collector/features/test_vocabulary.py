from collector.serve.api.table import ROUTES
from collector.serve.web.descriptions import COUNTS, FIELDS, object_types
from collector.serve.web.openapi import types_of


def test_every_word_of_the_vocabulary_is_used() -> None:
    used = {field.name for kind in object_types(types_of(ROUTES)) for field in kind.fields}
    assert FIELDS.keys() <= used
    assert COUNTS.keys() <= used
