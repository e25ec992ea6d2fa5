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


class Dispatch:
    """A submission on its way, and the future of its result. `sent`: it was handed to the connection, may arrive."""

    __slots__ = ("result", "sent", "submission")

    def __init__(self, submission: memory_pb2.Submission, result: asyncio.Future[memory_pb2.SubmitResult]) -> None:
        self.submission = submission
        self.result = result
        self.sent = False


class SubmissionStream:
    """A `Memory.Submit` stream to one endpoint. Once broken it stays broken: open another one.

    Belongs to one loop. There are no deadlines here: whoever calls stops waiting by cancelling.
    """

    def __init__(self, channel: grpc.aio.Channel, shown: tuple[tuple[str, str], ...] = ()) -> None:
        """`shown` is the metadata that goes with the stream."""
        self._shown = shown
        self._stub: memory_pb2_grpc.MemoryAsyncStub = memory_pb2_grpc.MemoryStub(channel)
        self._waiting: deque[Dispatch] = deque()
        self._dispatches: dict[int, Dispatch] = {}
        self._numbers = 0
        self._wake = asyncio.Event()
        self._connected = False
        self._broken: str | None = None
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    @property
    def is_open(self) -> bool:
        """Whether a call made now has a chance."""
        return self._broken is None

    @property
    def is_connected(self) -> bool:
        """Whether the other side has answered the opening of the stream, and the stream has not broken since."""
        return self._connected and self._broken is None

    def send(self, submission: memory_pb2.Submission) -> Dispatch:
        """Send it under a number of its own. Its `result` ends in a result or in `StreamBroken`.

        Raises `StreamBroken` when the stream is not open. Whoever stops waiting ends `result`, and calls `forget`.
        """
        if self._broken is not None:
            raise StreamBroken(self._broken, delivered=False)
        self._numbers += 1
        number = submission.request = self._numbers
        dispatch = self._dispatches[number] = Dispatch(submission, self._loop.create_future())
        self._waiting.append(dispatch)
        self._wake.set()
        return dispatch

    def forget(self, dispatch: Dispatch) -> None:
        """Nobody waits for it any more."""
        self._dispatches.pop(dispatch.submission.request, None)

    async def call(self, submission: memory_pb2.Submission) -> memory_pb2.SubmitResult:
        """Send it and wait for its result. Raises `StreamBroken`."""
        dispatch = self.send(submission)
        try:
            return await dispatch.result
        finally:
            self.forget(dispatch)

    async def close(self) -> None:
        """End the stream; calls that wait are broken."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        stream = self._stub.Submit(metadata=self._shown)
        writer: asyncio.Task[None] | None = None
        reason = "closed"
        try:
            # The other side answers at once with its headers: from then on, and not before, something may have arrived.
            await stream.wait_for_connection()
            self._connected = True
            writer = self._loop.create_task(self._write(stream))
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
            dispatch = self._waiting.popleft()
            if dispatch.result.done():
                continue  # nobody waits for it any more
            bundle.submissions.append(dispatch.submission)
            dispatch.sent = True
            size += dispatch.submission.ByteSize()
        return bundle

    def _settle(self, bundle: memory_pb2.SubmitResults) -> None:
        for result in bundle.results:
            dispatch = self._dispatches.pop(result.request, None)
            if dispatch is not None and not dispatch.result.done():
                dispatch.result.set_result(result)

    def _break(self, reason: str) -> None:
        self._broken = reason
        for dispatch in self._dispatches.values():
            if not dispatch.result.done():
                dispatch.result.set_exception(StreamBroken(reason, dispatch.sent))
        self._dispatches.clear()
