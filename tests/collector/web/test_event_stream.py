import asyncio

from collector.web.event_stream import KEPT, EventStream, Topic


async def test_a_reader_hears_what_is_told_while_it_listens() -> None:
    stream = EventStream()
    stream.publish(Topic.EVENT, b"0")
    with stream.reading() as reader:
        stream.publish(Topic.EVENT, b"1")
        stream.publish(Topic.ALERT, b"2")
        assert [each.body for each in await reader.take(5)] == [b"1", b"2"]
        assert await reader.take(0) == []
    assert len(stream) == 0


async def test_who_comes_back_goes_on_after_what_it_has() -> None:
    stream = EventStream()
    for number in range(5):
        stream.publish(Topic.EVENT, b"%d" % number)
    with stream.reading() as reader:
        stream.publish(Topic.EVENT, b"5")
        [last] = await reader.take(5)
    stream.publish(Topic.EVENT, b"6")
    with stream.reading(last.id) as reader:
        assert [each.body for each in await reader.take(5)] == [b"6"]
    with stream.reading(stream.last_id) as reader:
        assert await reader.take(0) == []


async def test_who_was_away_for_too_long_is_told_so() -> None:
    stream = EventStream()
    stream.publish(Topic.EVENT, b"first")
    first = stream.last_id
    for _ in range(KEPT + 1):
        stream.publish(Topic.EVENT, b"more")
    for last_id in (first, "other-3", "nonsense", "", f"{first.partition('-')[0]}-99999999"):
        with stream.reading(last_id) as reader:
            [message] = await reader.take(5)
            assert message.news is Topic.BEHIND
            assert message.id == stream.last_id


async def test_who_does_not_keep_up_is_let_go_and_costs_nothing() -> None:
    stream = EventStream()
    with stream.reading() as slow:
        for _ in range(KEPT + 1):
            stream.publish(Topic.EVENT, b"more")
        assert await slow.take(5) == []
        assert "did not keep up" in slow.why_it_ends


async def test_the_end_is_told_to_those_who_wait() -> None:
    stream = EventStream()
    with stream.reading() as reader:
        waiting = asyncio.create_task(reader.take(60))
        await asyncio.sleep(0)
        stream.end("it stops")
        assert await waiting == []
        assert reader.why_it_ends == "it stops"
    with stream.reading() as late:
        assert late.why_it_ends == "it stops"


def test_a_message_is_written_as_server_sent_events_are() -> None:
    stream = EventStream()
    with stream.reading() as reader:
        stream.publish(Topic.NODE, b'{"node":"alpha"}')
        [message] = list(reader._waiting)
    assert message.encoded() == f'id: {stream.last_id}\nevent: node\ndata: {{"node":"alpha"}}\n\n'.encode()
