import numpy as np

from collector.common.applications import ApplicationTraits
from collector.features.network.applications.images import ImageTable
from collector.features.network.applications.table import NO_APPLICATIONS, Applications, applications_in
from collector.features.network.mesh.delays import Delays
from collector.snapshot.codec import pack, unpack
from collector.snapshot.pending import PendingTask, with_pending
from collector.snapshot.tables import NOWHERE, Snapshot
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

SOME = (1.0, 1.0, 0.0, 0.0)


def shop(links: dict[int, frozenset[tuple[int, int]]] | None = None) -> Applications:
    return Applications(
        names=("shop",),
        delay_max=np.array([0.085]),
        of_service=np.array([0, 0, 0, NOWHERE]),
        links=links or {},
    )


def cluster() -> Snapshot:
    nodes = [NodeFacts(name=name, capacity=Quantities(8.0, 16)) for name in "ab"]
    snapshot = assemble(nodes, [TaskFacts(id="t", node="a", service="web")])
    shop = Applications(
        names=("shop",),
        delay_max=np.array([0.085]),
        of_service=np.array([0]),
        links={0: frozenset({(0, 0)})},
        is_member=np.array([True]),
    )
    delays = Delays.of_matrix(np.array([[0.0, 0.1], [0.1, 0.0]]))
    images = ImageTable.of_nodes([["web:1"], ["web:1", "db"]])
    return snapshot.with_part(shop).with_part(delays).with_part(images)


def test_all_services_of_an_application_talk_unless_it_has_links() -> None:
    assert shop().peers_of(1).tolist() == [0, 1, 2]
    assert shop().peers_of(3).tolist() == []
    assert shop().peers_of(9).tolist() == []
    linked = shop({0: frozenset({(0, 1), (2, 2)})})
    assert [linked.peers_of(row).tolist() for row in range(4)] == [[1], [0], [2], []]


def test_a_new_service_joins_an_application_and_the_smaller_bound_counts() -> None:
    more = shop().with_services([(5, "shop", 0.05), (6, "other", np.inf)])
    assert more.application_of(5) == 0
    assert more.application_of(4) == NOWHERE
    assert more.names == ("shop", "other")
    assert more.delay_max.tolist() == [0.05, np.inf]
    assert NO_APPLICATIONS.with_services([(0, "a", 1.0)]).delay_max.tolist() == [1.0]


def test_pending_tasks_bring_their_application() -> None:
    task = PendingTask(
        node="b",
        service="db",
        allocated=SOME,
        envelope=SOME,
        mean=SOME,
        variance=SOME,
        task_class=1,
        application=ApplicationTraits("shop"),
    )
    snapshot = unpack(pack(with_pending(cluster(), [task], turn=1)))
    applications = applications_in(snapshot)
    assert applications.of_service.tolist() == [0, 0]
    assert applications.delay_max.tolist() == [0.085]


def test_an_image_is_on_the_nodes_that_report_it() -> None:
    images = ImageTable.of_nodes([["web:1", "web:1"], [], ["db", "web:1"]])
    assert images.on_nodes("web:1").tolist() == [True, False, True]
    assert images.on_nodes("other").tolist() == [False] * 3


def test_delays_applications_and_images_are_kept_with_the_snapshot() -> None:
    before = cluster()
    kept = unpack(pack(before))
    delays, applications, images = kept.part(Delays), kept.part(Applications), kept.part(ImageTable)
    assert delays is not None
    assert applications is not None
    assert images is not None
    assert delays.from_node(0).tolist() == [0.0, 0.1]
    assert delays.kinds_from(0) == ["measured"] * 2
    assert applications.names == ("shop",)
    assert applications.delay_max.tolist() == [0.085]
    assert applications.of_service.tolist() == [0]
    assert applications.links == {0: frozenset({(0, 0)})}
    assert applications.is_member is not None
    assert applications.is_member.tolist() == [True]
    assert images.on_nodes("db").tolist() == [False, True]
    bare = unpack(pack(assemble([NodeFacts(name="a", capacity=Quantities(8.0, 16))], [])))
    assert not bare.parts
