from agent.sources.docker.client import ContainerIndex
from agent.sources.docker.models import ContainerInfo, RuntimeEvent, parse_event
from tests.agent.sources.docker.events import ID, line


def apply_lines(index: ContainerIndex, *lines: bytes) -> list[RuntimeEvent]:
    return [changes for each in lines if (changes := index.apply(parse_event(each))) is not None]


def stored_info(index: ContainerIndex) -> ContainerInfo:
    info = index.get(ID)
    assert info is not None
    return info


def test_start_has_the_time_since_creation() -> None:
    index = ContainerIndex()
    assert apply_lines(index, line("create", 100.0), line("start", 102.5)) == [
        RuntimeEvent("start", ID, "web", 102.5, startup_seconds=2.5)
    ]
    assert stored_info(index) == ContainerInfo("web", "nginx", None, 102.5, restarts=0, startup_seconds=2.5)


def test_startup_time_is_unknown_without_a_create_event() -> None:
    index = ContainerIndex()
    assert apply_lines(index, line("start", 102.5)) == [RuntimeEvent("start", ID, "web", 102.5)]
    assert stored_info(index).startup_seconds is None


def test_exit_has_its_code_and_the_name_is_kept_until_removal() -> None:
    index = ContainerIndex()
    events = apply_lines(
        index, line("start", 1.0), line("oom", 2.0), line("die", 3.0, attributes={"exitCode": "137"})
    )
    assert events[1:] == [
        RuntimeEvent("oom", ID, "web", 2.0),
        RuntimeEvent("die", ID, "web", 3.0, exit_code=137),
    ]
    assert stored_info(index).name == "web"
    assert apply_lines(index, line("destroy", 4.0)) == []
    assert index.get(ID) is None


def test_every_start_after_a_death_is_a_restart() -> None:
    index = ContainerIndex()
    apply_lines(index, line("create", 0.0), line("start", 1.0))
    for number in (1, 2):
        events = apply_lines(
            index, line("die", 10.0 * number, attributes={"exitCode": "1"}), line("start", 10.0 * number + 1)
        )
        assert stored_info(index).restarts == number
        assert stored_info(index).started_at == 10.0 * number + 1
        assert stored_info(index).startup_seconds == 1.0
        assert events[-1].startup_seconds is None


def test_start_of_a_listed_container_is_not_a_restart() -> None:
    index = ContainerIndex()
    index.replace_all({ID: ContainerInfo("web", "nginx", restarts=0)})
    apply_lines(index, line("start", 5.0))
    assert stored_info(index).restarts == 0


def test_a_new_list_replaces_the_old_and_keeps_values_of_events() -> None:
    index = ContainerIndex()
    apply_lines(index, line("create", 0.0), line("start", 1.0), line("start", 1.0, "b" * 64))
    apply_lines(index, line("die", 2.0), line("start", 3.0))
    index.replace_all({ID: ContainerInfo("renamed", "nginx", restarts=0)})
    assert stored_info(index) == ContainerInfo("renamed", "nginx", None, 3.0, restarts=1, startup_seconds=1.0)
    assert index.get("b" * 64) is None


def test_a_rename_is_followed() -> None:
    index = ContainerIndex()
    apply_lines(
        index, line("start", 1.0), line("rename", 2.0, name="web2"), line("rename", 2.0, "f" * 64, "x")
    )
    assert stored_info(index).name == "web2"
    assert stored_info(index).started_at == 1.0
    assert index.get("f" * 64) is None


def test_unknown_event_changes_nothing() -> None:
    index = ContainerIndex()
    apply_lines(index, line("start", 1.0))
    before = stored_info(index)
    assert apply_lines(index, line("health_status: healthy", 2.0)) == []
    assert stored_info(index) == before


def test_ended_and_unstarted_containers_are_bounded() -> None:
    index = ContainerIndex()
    ids = [f"{number:064x}" for number in range(3000)]
    for number, each in enumerate(ids):
        apply_lines(
            index,
            line("create", number, f"f{each[1:]}"),
            line("start", number, each),
            line("die", number, each),
        )
    remembered = [each for each in ids if index.get(each) is not None]
    assert remembered == ids[-len(remembered) :]
    assert 0 < len(remembered) <= 1024
    assert apply_lines(index, line("start", 9999.0, f"f{ids[0][1:]}"))[0].startup_seconds is None


def test_running_containers_are_never_dropped() -> None:
    index = ContainerIndex()
    apply_lines(index, line("start", 1.0))
    for number in range(3000):
        apply_lines(index, line("start", 2.0, f"{number:064x}"), line("die", 3.0, f"{number:064x}"))
    assert stored_info(index).name == "web"
