"""One stream of submissions that many calls share: bundles go out with whatever waits, results come back by number."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import grpc
import grpc.aio

from .generated import memory_pb2, memory_pb2_grpc

BUNDLE_BYTES_LIMIT: Final = 1 << 20
"""A bundle is closed at this size; one submission alone may be larger (an envelope has its own limit)."""


class StreamBroken(Exception):
    """The stream ended before the result came. `delivered`: whether the submission may have reached the other side."""

    def __init__(self, reason: str, delivered: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delivered = delivered


class SubmissionStream:
    """A `Memory.Submit` stream to one endpoint. Once broken it stays broken: open another one.

    Belongs to one loop. There are no deadlines here: whoever calls stops waiting by cancelling.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: memory_pb2_grpc.MemoryAsyncStub = memory_pb2_grpc.MemoryStub(channel)
        self._waiting: deque[memory_pb2.Submission] = deque()
        self._results: dict[int, asyncio.Future[memory_pb2.SubmitResult]] = {}
        self._sent: set[int] = set()
        self._numbers = 0
        self._wake = asyncio.Event()
        self._connected = False
        self._broken: str | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_open(self) -> bool:
        """Whether a call made now has a chance."""
        return self._broken is None

    @property
    def is_connected(self) -> bool:
        """Whether the other side has answered the opening of the stream, and the stream has not broken since."""
        return self._connected and self._broken is None

    def was_sent(self, number: int) -> bool:
        """Whether the waiting submission of that number was handed to the connection: it may have arrived."""
        return number in self._sent

    async def call(self, submission: memory_pb2.Submission) -> memory_pb2.SubmitResult:
        """Send it under a number of its own and wait for its result. Raises `StreamBroken`."""
        if self._broken is not None:
            raise StreamBroken(self._broken, delivered=False)
        self._numbers += 1
        number = submission.request = self._numbers
        result = self._results[number] = asyncio.get_running_loop().create_future()
        self._waiting.append(submission)
        self._wake.set()
        try:
            return await result
        finally:
            self._results.pop(number, None)
            self._sent.discard(number)

    async def close(self) -> None:
        """End the stream; calls that wait are broken."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        stream = self._stub.Submit()
        writer: asyncio.Task[None] | None = None
        reason = "closed"
        try:
            # The other side answers at once with its headers: from then on, and not before, something may have arrived.
            await stream.wait_for_connection()
            self._connected = True
            writer = asyncio.get_running_loop().create_task(self._write(stream))
            async for bundle in stream:
                self._settle(bundle)
            reason = "ended by the other side"
        except grpc.aio.AioRpcError as error:
            reason = f"{error.code().name}: {error.details()}"
        except asyncio.CancelledError:
            reason = await self._reason(stream)
        finally:
            self._break(reason)
            stream.cancel()
            if writer is not None:
                writer.cancel()

    async def _reason(self, stream: grpc.aio.StreamStreamCall[memory_pb2.Submissions, memory_pb2.SubmitResults]) -> str:
        """`wait_for_connection` reports a failed connection by a cancellation: tell it from a `close`."""
        if not stream.done() or stream.cancelled():
            return "closed"
        return f"{(await stream.code()).name}: {await stream.details()}"

    async def _write(self, stream: grpc.aio.StreamStreamCall[memory_pb2.Submissions, memory_pb2.SubmitResults]) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    await stream.write(self._bundle())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the reader sees the same end, and knows its reason

    def _bundle(self) -> memory_pb2.Submissions:
        bundle, size = memory_pb2.Submissions(), 0
        while self._waiting and size < BUNDLE_BYTES_LIMIT:
            submission = self._waiting.popleft()
            if submission.request not in self._results:
                continue  # nobody waits for it any more
            bundle.submissions.append(submission)
            self._sent.add(submission.request)
            size += submission.ByteSize()
        return bundle

    def _settle(self, bundle: memory_pb2.SubmitResults) -> None:
        for result in bundle.results:
            future = self._results.get(result.request)
            if future is not None and not future.done():
                future.set_result(result)

    def _break(self, reason: str) -> None:
        self._broken = reason
        for number, future in self._results.items():
            if not future.done():
                future.set_exception(StreamBroken(reason, delivered=number in self._sent))
