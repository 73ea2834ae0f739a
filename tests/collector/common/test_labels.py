from collector.common import labels


def test_every_label_constant_is_in_the_table() -> None:
    constants = {
        value for name, value in vars(labels).items() if name.endswith("_LABEL") and " " not in value
    }
    assert constants == {each.name for each in labels.LABELS}
    assert all(each.meaning.endswith(".") and each.set_on and each.values for each in labels.LABELS)
