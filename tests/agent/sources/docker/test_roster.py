from agent.sources.docker.info import ContainerInfo, RuntimeEvent
from agent.sources.docker.models import parse_event
from agent.sources.docker.roster import Roster
from tests.agent.sources.docker.events import ID, line


def tell(roster: Roster, *lines: bytes) -> list[RuntimeEvent]:
    return [happened for each in lines if (happened := roster.apply(parse_event(each))) is not None]


def known(roster: Roster) -> ContainerInfo:
    info = roster.get(ID)
    assert info is not None
    return info


def test_a_start_is_told_with_the_time_since_the_container_was_made() -> None:
    roster = Roster()
    assert tell(roster, line("create", 100.0), line("start", 102.5)) == [
        RuntimeEvent("start", ID, "web", 102.5, startup_seconds=2.5)
    ]
    assert known(roster) == ContainerInfo("web", "nginx", None, 102.5, restarts=0, startup_seconds=2.5)


def test_without_having_heard_of_its_making_the_startup_is_unknown() -> None:
    roster = Roster()
    assert tell(roster, line("start", 102.5)) == [RuntimeEvent("start", ID, "web", 102.5)]
    assert known(roster).startup_seconds is None


def test_a_death_is_told_with_its_exit_code_and_the_name_is_kept_until_it_is_removed() -> None:
    roster = Roster()
    events = tell(
        roster, line("start", 1.0), line("oom", 2.0), line("die", 3.0, attributes={"exitCode": "137"})
    )
    assert events[1:] == [
        RuntimeEvent("oom", ID, "web", 2.0),
        RuntimeEvent("die", ID, "web", 3.0, exit_code=137),
    ]
    assert known(roster).name == "web"
    assert tell(roster, line("destroy", 4.0)) == []
    assert roster.get(ID) is None


def test_every_start_after_a_death_is_a_restart() -> None:
    roster = Roster()
    tell(roster, line("create", 0.0), line("start", 1.0))
    for number in (1, 2):
        events = tell(
            roster, line("die", 10.0 * number, attributes={"exitCode": "1"}), line("start", 10.0 * number + 1)
        )
        assert known(roster).restarts == number
        assert known(roster).started_at == 10.0 * number + 1
        assert known(roster).startup_seconds == 1.0
        assert events[-1].startup_seconds is None


def test_a_start_that_the_list_has_told_of_already_is_no_restart() -> None:
    roster = Roster()
    roster.renew({ID: ContainerInfo("web", "nginx", restarts=0)})
    tell(roster, line("start", 5.0))
    assert known(roster).restarts == 0


def test_a_new_list_replaces_the_old_and_keeps_what_only_events_tell() -> None:
    roster = Roster()
    tell(roster, line("create", 0.0), line("start", 1.0), line("start", 1.0, "b" * 64))
    tell(roster, line("die", 2.0), line("start", 3.0))
    roster.renew({ID: ContainerInfo("renamed", "nginx", restarts=0)})
    assert known(roster) == ContainerInfo("renamed", "nginx", None, 3.0, restarts=1, startup_seconds=1.0)
    assert roster.get("b" * 64) is None


def test_a_rename_is_followed() -> None:
    roster = Roster()
    tell(roster, line("start", 1.0), line("rename", 2.0, name="web2"), line("rename", 2.0, "f" * 64, "x"))
    assert known(roster).name == "web2"
    assert known(roster).started_at == 1.0
    assert roster.get("f" * 64) is None


def test_an_event_of_a_kind_not_known_changes_nothing() -> None:
    roster = Roster()
    tell(roster, line("start", 1.0))
    before = known(roster)
    assert tell(roster, line("health_status: healthy", 2.0)) == []
    assert known(roster) == before


def test_the_dead_and_the_unborn_are_not_remembered_for_ever() -> None:
    roster = Roster()
    ids = [f"{number:064x}" for number in range(3000)]
    for number, each in enumerate(ids):
        tell(
            roster,
            line("create", number, f"f{each[1:]}"),
            line("start", number, each),
            line("die", number, each),
        )
    remembered = [each for each in ids if roster.get(each) is not None]
    assert remembered == ids[-len(remembered) :]
    assert 0 < len(remembered) <= 1024
    assert tell(roster, line("start", 9999.0, f"f{ids[0][1:]}"))[0].startup_seconds is None


def test_one_that_runs_is_never_forgotten_for_the_dead() -> None:
    roster = Roster()
    tell(roster, line("start", 1.0))
    for number in range(3000):
        tell(roster, line("start", 2.0, f"{number:064x}"), line("die", 3.0, f"{number:064x}"))
    assert known(roster).name == "web"
