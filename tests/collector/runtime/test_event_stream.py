import asyncio

from collector.runtime.event_stream import MAX_MESSAGES, EventStream, Topic


async def test_subscriber_gets_messages_while_subscribed() -> None:
    stream = EventStream()
    stream.publish(Topic.EVENT, b"0")
    with stream.subscribe() as reader:
        stream.publish(Topic.EVENT, b"1")
        stream.publish(Topic.ALERT, b"2")
        assert [each.body for each in await reader.take(5)] == [b"1", b"2"]
        assert await reader.take(0) == []
    assert len(stream) == 0


async def test_reconnect_resumes_after_the_last_id() -> None:
    stream = EventStream()
    for number in range(5):
        stream.publish(Topic.EVENT, b"%d" % number)
    with stream.subscribe() as reader:
        stream.publish(Topic.EVENT, b"5")
        [last] = await reader.take(5)
    stream.publish(Topic.EVENT, b"6")
    with stream.subscribe(last.id) as reader:
        assert [each.body for each in await reader.take(5)] == [b"6"]
    with stream.subscribe(stream.last_id) as reader:
        assert await reader.take(0) == []


async def test_reconnect_after_too_long_reports_missed_messages() -> None:
    stream = EventStream()
    stream.publish(Topic.EVENT, b"first")
    first = stream.last_id
    for _ in range(MAX_MESSAGES + 1):
        stream.publish(Topic.EVENT, b"more")
    for last_id in (first, "other-3", "nonsense", "", f"{first.partition('-')[0]}-99999999"):
        with stream.subscribe(last_id) as reader:
            [message] = await reader.take(5)
            assert message.topic is Topic.MISSED
            assert message.id == stream.last_id


async def test_slow_subscriber_is_disconnected() -> None:
    stream = EventStream()
    with stream.subscribe() as slow:
        for _ in range(MAX_MESSAGES + 1):
            stream.publish(Topic.EVENT, b"more")
        assert await slow.take(5) == []
        assert "fell behind" in slow.end_reason


async def test_end_reaches_waiting_subscribers() -> None:
    stream = EventStream()
    with stream.subscribe() as reader:
        waiting = asyncio.create_task(reader.take(60))
        await asyncio.sleep(0)
        stream.end("it stops")
        assert await waiting == []
        assert reader.end_reason == "it stops"
    with stream.subscribe() as late:
        assert late.end_reason == "it stops"


def test_message_encoding() -> None:
    stream = EventStream()
    with stream.subscribe() as reader:
        stream.publish(Topic.NODE, b'{"node":"alpha"}')
        [message] = list(reader._queue)
    assert message.encoded() == f'id: {stream.last_id}\nevent: node\ndata: {{"node":"alpha"}}\n\n'.encode()
